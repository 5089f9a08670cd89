"""Elections of leaders, a batch at a time."""
