"""Brokers that run, held against their side of KIP-951 and KIP-392. Nothing moves, and nothing is
written.
"""
