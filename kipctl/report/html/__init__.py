"""A report of recorded runs as one HTML page, from the document of `kipctl.pipeline.pictures`."""

MARK = "<!-- kipctl report -->"
"""In the first lines of every page: a file that has it may be replaced by another report."""
