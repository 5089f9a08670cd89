"""Actions on a cluster, run while a probe measures."""
