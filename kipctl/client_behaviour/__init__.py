"""What clients do when leaders move: rules without I/O, the same for the tap and request logs."""
