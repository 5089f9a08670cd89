"""Kafka's wire format: bytes to dataclasses and back. No sockets, no clock."""
