"""A measured run: a load, actions on the cluster meanwhile, its record, and its results."""
