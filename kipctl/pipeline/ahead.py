"""A JVM that is started ahead of the session it is for, while Python reads what that needs."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from kipctl.pipeline.class_archive import class_archive
from kipctl.pipeline.launch import Launched, launch, log_path
from kipctl.pipeline.place import Place
from kipctl.pipeline.settings import defaults, jvm_options, session_settings

_Wanted = tuple[dict[str, str], list[str]]


class _Ahead:
    """The one JVM that was started, until a session takes it; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: tuple[_Wanted, Launched] | None = None

    def start(self, wanted: _Wanted) -> None:
        with self._lock:
            if self._started is None:
                self._started = wanted, launch(wanted[0], emptied(log_path()), wanted[1])

    def take(self, wanted: _Wanted) -> Launched | None:
        with self._lock:
            started, self._started = self._started, None
        if started is None or started[0] == wanted:
            return started[1] if started else None
        started[1].end()
        return None


_ahead = _Ahead()


def configured(place: Place) -> dict[str, str]:
    """What the user has set: by `--conf`, or in Spark's own configuration."""
    return {**defaults(os.environ), **place.conf}


def conf_of(place: Place, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a session starts with; `settings` come before all others."""
    chosen = session_settings(place.master, configured(place), os.environ)
    return {"spark.master": place.master, "spark.app.name": "kipctl", **chosen, **settings}


def jvm_of(place: Place, settings: Mapping[str, str], *, is_light: bool) -> _Wanted:
    """The settings and the options of the JVM for a session."""
    own, conf = configured(place), conf_of(place, settings)
    archive = class_archive(os.environ)
    options = jvm_options(is_light=is_light, configured=own, environment=os.environ)
    return conf, [*(archive.options() if archive else ()), *options]


def start_ahead(place: Place, *, is_light: bool) -> None:
    """Start a JVM for the session that is to come, and do not wait for it."""
    _ahead.start(jvm_of(place, {}, is_light=is_light))


def started(wanted: _Wanted) -> Launched:
    """The JVM for these settings and options: one that was started ahead, or else a new one."""
    return _ahead.take(wanted) or launch(wanted[0], emptied(log_path()), wanted[1])


def emptied(log: Path) -> Path:
    """The log file, empty: each JVM begins its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    return log
