"""What clients, and brokers, do wrong when leaders move: a declaration each, the same for the tap,
its runs and request logs."""
