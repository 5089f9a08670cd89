import java.time.Duration;
import java.util.Properties;
import java.util.Scanner;
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
 * <p>It has the arguments that `python/driver.py` tells of.
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
    private static volatile String topic;
    private static String metadataMs;

    public static void main(String[] arguments) throws Exception {
        String role = arguments[0], bootstrap = arguments[1];
        topic = arguments[2];
        int partitions = Integer.parseInt(arguments[3]);
        String clientId = arguments[6], rack = arguments[7];
        metadataMs = arguments[8];
        if (role.equals("consumer")) {
            read(bootstrap, partitions, clientId, rack);
            return;
        }
        Thread reader = null;
        if (role.equals("both")) {
            start(Client::watchStdin);
        } else {
            start(Client::takeTopics);
        }
        if (role.equals("both")) {
            reader = start(() -> read(bootstrap, partitions, clientId, rack));
        }
        double rate = Double.parseDouble(arguments[4]);
        long sent = produce(bootstrap, partitions, rate, arguments[5], clientId);
        if (reader != null) {
            reader.join(PATIENCE.toMillis());
        }
        report(sent);
    }

    private static long produce(
            String bootstrap,
            int partitions,
            double rate,
            String acks,
            String clientId)
            throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        settings.put("acks", acks);
        settings.put("metadata.max.idle.ms", metadataMs);
        putAges(settings);
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
        return sent;
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

    private static void takeTopics() {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            topic = lines.nextLine().trim();
        }
    }

    private static void putAges(Properties settings) {
        settings.put("metadata.max.age.ms", metadataMs);
        settings.put("metadata.recovery.rebootstrap.trigger.ms", metadataMs);
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
            String bootstrap, int partitions, String clientId, String rack) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId + "-reader");
        settings.put("client.rack", rack);
        settings.put("auto.offset.reset", "earliest");
        putAges(settings);
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

    private static synchronized void report(long sent) {
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
