"""What others could make of how a cluster is reached: a sentence each, said before it is."""

import stat
from collections.abc import Mapping
from pathlib import Path

from kipctl.security import msk
from kipctl.security.kerberos import GSSAPI
from kipctl.security.sasl import OAUTHBEARER, PLAIN
from kipctl.security.settings import Security
from kipctl.security.tokens import ClientCredentials, FileToken, MskToken

_SECRETS = ("password", "secret", "sasl.jaas.config", "ssl.keystore.key")
_NAME_UNCHECKED = (
    "ssl.endpoint.identification.algorithm is empty: whoever has a certificate of an authority that"
    " is trusted can answer as {}."
)


def weaknesses(
    security: Security, properties: Mapping[str, str], file: str = "", servers: str = ""
) -> list[str]:
    """Sentences on what `security` was made of: properties, of which `file` may say some, and on
    what goes to `servers` (`host:port,host:port`)."""
    tls, sasl = security.tls, security.sasl
    token, kerberos = (sasl.token, sasl.kerberos) if sasl else (None, None)
    sentences = []
    if sasl and tls is None and sasl.mechanism in (PLAIN, OAUTHBEARER):
        what = "password" if sasl.mechanism == PLAIN else "token"
        sentences.append(
            f"SASL_PLAINTEXT with {sasl.mechanism} sends the {what} unencrypted: whoever hears it"
            " on its way can log in with it."
        )
    if kerberos and tls is None:
        sentences.append(
            f"SASL_PLAINTEXT with {GSSAPI} protects the login alone: whoever is on the way can read"
            " and change all that follows, and where a broker is named by its address DNS says"
            " who it has to be."
        )
    if isinstance(token, MskToken) and (others := msk.strangers(servers)):
        sentences.append(
            f"IAM's token for {token.region} goes to {' and '.join(others)}, by name not"
            " MSK's: whoever answers there can log in with it to any cluster of MSK's in that"
            " region."
        )
    if tls and not tls.checks_name:
        sentences.append(_NAME_UNCHECKED.format("a broker"))
    if isinstance(token, ClientCredentials) and not token.tls.checks_name:
        sentences.append(_NAME_UNCHECKED.format("the token endpoint"))
    key_file = properties.get("ssl.key.location", "")  # librdkafka's: what it holds is a property
    secretless = {"ssl.keystore.key"} if key_file else set()
    secretless |= {"sasl.jaas.config"} if security.is_iam or kerberos else set()
    said = [name for name in properties if name not in secretless]
    secret_files = [file] if any(name.endswith(_SECRETS) for name in said) else []
    secret_files += [properties.get("ssl.keystore.location", ""), key_file] if tls else []
    secret_files += [str(token.path)] if isinstance(token, FileToken) else []
    secret_files += [str(kerberos.keytab)] if kerberos and kerberos.keytab else []
    return sentences + [
        f"All users of this machine may read {path}, which holds a secret: chmod o-r {path}"
        for path in filter(None, secret_files)
        if _others_read(Path(path))
    ]


def _others_read(path: Path) -> bool:
    """Whether everybody may, also through the folders that it is in."""
    try:
        path = path.expanduser().resolve()
        is_reached = all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
        return is_reached and bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:  # what cannot be read is said by who reads it
        return False
