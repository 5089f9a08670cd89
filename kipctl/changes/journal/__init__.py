"""What was changed, written down before it is."""
