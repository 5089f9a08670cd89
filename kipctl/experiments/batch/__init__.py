"""`experiment batch`: how many leaders to move at a time."""
