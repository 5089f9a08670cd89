"""`perf metadata`: what many topics cost clients in Metadata (KIP-526)."""
