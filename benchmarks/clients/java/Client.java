import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Java's producer and consumer at work; their own settings but for acks.
 *
 * <p>Started as `java Client.java BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID [produce-only]`.
 * It produces RATE records/s to the topic's partitions in turn under CLIENT_ID, and reads them as
 * CLIENT_ID-reader, unless told otherwise. It prints `ready` when each partition can have been
 * written to twice, works until its stdin is closed, waits for what is under way, and prints what
 * it counted as a line of JSON.
 */
public class Client {
    /** For what is under way at the end. */
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    /** It ends by itself after that, should nobody close its stdin. */
    private static final long MOST_MS = 900_000;

    private static final TreeMap<String, Integer> ERRORS = new TreeMap<>();
    private static volatile boolean over = false;
    private static long acknowledged = 0;
    private static long failed = 0;
    private static volatile long read = 0;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        double rate = Double.parseDouble(arguments[3]);
        start(Client::watchStdin);
        boolean reads = !Arrays.asList(arguments).contains("produce-only");
        Thread reader = start(() -> read(reads, arguments[0], topic, partitions, arguments[5]));
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", arguments[5]);
        settings.put("acks", arguments[4]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        long sent = 0;
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        long began = System.nanoTime();
        while (!over) {
            byte[] value = String.format("%-100d", sent).getBytes();
            int partition = (int) (sent % partitions);
            producer.send(
                    new ProducerRecord<>(topic, partition, null, value),
                    (metadata, error) -> done(error, 2 * partitions));
            sent++;
            long left = began + (long) (sent / rate * 1e9) - System.nanoTime();
            if (left > 0) {
                TimeUnit.NANOSECONDS.sleep(left);
            }
            over = over || System.nanoTime() - began > MOST_MS * 1_000_000;
        }
        producer.close(PATIENCE);
        reader.join(PATIENCE.toMillis());
        tell(sent);
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void watchStdin() {
        try {
            System.in.readAllBytes();
        } catch (java.io.IOException error) {
            // It is over too.
        }
        over = true;
    }

    private static synchronized void done(Exception error, int ready) {
        if (error != null) {
            failed++;
            ERRORS.merge(error.toString(), 1, Integer::sum);
        } else if (++acknowledged == ready) {
            System.out.println("ready");
        }
    }

    private static void read(
            boolean reads, String bootstrap, String topic, int partitions, String clientId) {
        if (!reads) {
            return;
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId + "-reader");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            var all = IntStream.range(0, partitions)
                    .mapToObj(number -> new TopicPartition(topic, number))
                    .collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (!over) {
                read += consumer.poll(Duration.ofMillis(200)).count();
            }
        } catch (RuntimeException error) {
            synchronized (Client.class) {
                ERRORS.merge("reading: " + error, 1, Integer::sum);
            }
        }
    }

    private static synchronized void tell(long sent) {
        String errors = ERRORS.entrySet().stream()
                .map(error -> quoted(error.getKey()) + ": " + error.getValue())
                .collect(Collectors.joining(", "));
        System.out.printf(
                "{\"version\": %s, \"sent\": %d, \"acknowledged\": %d, \"failed\": %d, \"read\": %d,"
                        + " \"errors\": {%s}}%n",
                quoted(AppInfoParser.getVersion()), sent, acknowledged, failed, read, errors);
    }

    private static String quoted(String text) {
        String escaped = text.replace("\\", "\\\\").replace("\"", "\\\"");
        return '"' + escaped.replaceAll("\\p{Cntrl}", " ") + '"';
    }
}
