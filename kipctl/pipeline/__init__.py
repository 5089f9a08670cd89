"""Traces and broker request logs into tables, on Spark: at any size, the same code."""
