"""A proxy that knows Kafka's protocol: any client under test, seen on the wire."""
