"""Other clients that can be put under test, each in a process of its own."""
