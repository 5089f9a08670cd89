"""The command line: what every command is made of, and in `commands` the commands."""
