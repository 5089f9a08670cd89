"""A user's own experiment: clients, settings or versions of Kafka against each other."""
