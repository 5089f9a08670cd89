package kipctl.tests;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.net.HttpURLConnection;
import java.net.URL;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/** A broker's validator of tokens that asks an HTTP server on loopback, the test's, about each. */
public class AskedValidator implements AuthenticateCallbackHandler {
    private static String url;

    /** It is an agent so that the broker has its class, and knows whom to ask. */
    public static void premain(String argument, Instrumentation instrumentation) {
        url = argument;
    }

    public void configure(Map configs, String mechanism, List entries) {
    }

    public void close() {
    }

    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (int i = 0; i < callbacks.length; i++) {
            if (callbacks[i] instanceof OAuthBearerValidatorCallback) {
                validate((OAuthBearerValidatorCallback) callbacks[i]);
            } else if (!(callbacks[i] instanceof OAuthBearerExtensionsValidatorCallback)) {
                throw new UnsupportedCallbackException(callbacks[i]);
            }
        }
    }

    private static void validate(OAuthBearerValidatorCallback callback) throws IOException {
        String token = callback.tokenValue();
        HttpURLConnection asked = (HttpURLConnection) new URL(url).openConnection();
        asked.setDoOutput(true);
        asked.getOutputStream().write(("token=" + token).getBytes("US-ASCII"));
        boolean isGood = asked.getResponseCode() == 200;
        InputStream stream = isGood ? asked.getInputStream() : asked.getErrorStream();
        String said = new String(stream.readAllBytes(), "UTF-8");
        if (isGood) {
            String[] parts = said.split(" ");
            callback.token(new Token(token, parts[0], Long.parseLong(parts[1])));
        } else {
            callback.error(said, null, null);
        }
    }

    private static class Token implements OAuthBearerToken {
        private final String value;
        private final String principal;
        private final long endsMs;

        Token(String value, String principal, long endsMs) {
            this.value = value;
            this.principal = principal;
            this.endsMs = endsMs;
        }

        public String value() {
            return value;
        }

        public Set scope() {
            return Collections.emptySet();
        }

        public long lifetimeMs() {
            return endsMs;
        }

        public String principalName() {
            return principal;
        }

        public Long startTimeMs() {
            return null;
        }
    }
}
