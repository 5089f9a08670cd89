"""What is recorded of a run: schema, recorder, store."""
