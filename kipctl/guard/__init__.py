"""Guards of a roll, a reassignment or elections: what they look at, and when they hold those up."""
