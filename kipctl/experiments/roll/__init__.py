"""KIP-951's roll: brokers are restarted one by one under load."""
