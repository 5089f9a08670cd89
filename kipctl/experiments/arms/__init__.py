"""Arms of an experiment: a client, what a tap changes for it, and the figures of its runs."""
