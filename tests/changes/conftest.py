"""The fixtures of commands that look at a cluster and of those that change it."""

from cluster_fixtures import *  # noqa: F403
