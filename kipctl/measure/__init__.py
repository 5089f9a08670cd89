"""Probes started, on this machine or on workers, and what their rows come to."""
