"""Clients held against the KIPs: a scripted cluster, rules a module each, and their verdicts."""
