"""What is to be: plans, how they are made, read and summed up. Pure but for the sizes of logs."""
