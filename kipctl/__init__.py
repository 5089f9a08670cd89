"""kipctl moves leaders on an Apache Kafka cluster and measures what that costs clients."""

__version__: str


def __getattr__(name: str) -> str:
    """The version, for those who ask: finding it takes a while, in which Ctrl-C has a traceback."""
    if name != "__version__":
        raise AttributeError(name)
    from importlib.metadata import version

    return version("kipctl")
