"""What is wrong with a cluster, or will be when leaders move: facts, and rules that judge them."""
