"""Arms of an experiment: a client, what a tap changes for it, and what it felt."""
