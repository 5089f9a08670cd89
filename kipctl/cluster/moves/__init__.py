"""Moving replicas and leaders: from a plan to what came of it, and the way back."""
