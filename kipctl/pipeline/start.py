"""What the JVM of a session is started with: its user's settings, kipctl's, and options."""

import os
from collections.abc import Mapping, Sequence

from kipctl.pipeline.class_archive import class_archive
from kipctl.pipeline.launch import Launched, launch, log_path, require_one_version
from kipctl.pipeline.place import Place
from kipctl.pipeline.settings import defaults, jvm_options, session_settings
from kipctl.state import make_private


def configured(place: Place) -> dict[str, str]:
    """What the user has set: by `--conf`, or in Spark's own configuration."""
    return {**defaults(os.environ), **place.conf}


def conf_of(place: Place, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a session starts with; `settings` come before all others.

    Those that are so in Spark's own configuration are left out: Spark reads it itself.
    """
    own = defaults(os.environ)
    conf = {
        "spark.app.name": "kipctl",
        **session_settings(place.master, configured(place), os.environ),
        **settings,
    }
    return {name: value for name, value in conf.items() if own.get(name) != value}


def options_of(place: Place, *, is_light: bool) -> list[str]:
    """The options of the JVM for a session."""
    archive = class_archive(os.environ)
    options = jvm_options(is_light=is_light, configured=configured(place), environment=os.environ)
    return [*(archive.options() if archive else ()), *options]


def started(conf: Mapping[str, str], options: Sequence[str]) -> Launched:
    """A JVM with these settings and options, which is not waited for. Raises UsageError."""
    require_one_version(os.environ)
    log = log_path()
    make_private(log.parent)
    log.write_bytes(b"")  # each JVM begins its own
    return launch(conf, log, options)
