"""Proxies of Kafka: kipctl's own client goes through one to the scripted cluster, and what came
through is held against what was sent.
"""
