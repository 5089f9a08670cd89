"""What a cluster is, and how it is changed."""
