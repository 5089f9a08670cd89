"""What every command prints as JSON: the shape of each document, and what each key means.

Keys that mean the same have the same name in every document (`keys`), and a time, a rate or a size
has its unit in its name. The documents of runs are also the `summary` of their `run.json`.
"""
