"""Lines of request logs, each read once and whole, by Python that runs on Spark's executors.

Nothing in here imports Spark or the rest of the pipeline: executors load no more than they need.
"""
