"""A real Apache Kafka cluster on this machine."""
