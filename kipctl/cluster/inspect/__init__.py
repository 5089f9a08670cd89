"""Findings about a cluster: its brokers, the hints they give, its Metadata, who reads where."""
