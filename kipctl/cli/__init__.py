"""The command line: it parses, calls, renders. No logic."""
