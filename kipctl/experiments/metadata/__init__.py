"""What many topics cost in Metadata (KIP-526): `perf metadata` and `experiment metadata`."""
