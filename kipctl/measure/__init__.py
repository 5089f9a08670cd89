"""Probes started, on this machine or on workers, and the figures of their rows."""
