"""Changes of a cluster: planned, shown, asked for, carried out, and undone.

They speak to whoever asked by `kipctl.changes.ui`, and print nothing themselves: commands, tests
and other programs use them alike.
"""
