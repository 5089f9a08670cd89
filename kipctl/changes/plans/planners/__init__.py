"""Ways to plan where replicas go, and in which order: pure functions from a snapshot to a plan."""
