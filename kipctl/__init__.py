"""kipctl moves the leaders of an Apache Kafka cluster and measures what clients felt."""

from importlib.metadata import version

__version__ = version("kipctl")
