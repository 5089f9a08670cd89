"""KIP-951's micro-benchmark: leaders rotate under load."""
