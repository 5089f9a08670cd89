"""A connection to one broker: blocking, for admin calls; non-blocking, for the probe."""
