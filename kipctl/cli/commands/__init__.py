"""A module a command: it parses, calls, renders. No logic; what several share stands below them."""
