"""What a Spark session is set to: pure functions of where it runs and how much there is to read."""

from collections.abc import Mapping

_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Each Column would tell the JVM the line of Python that made it: half of all calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_LIGHT: Mapping[str, str] = {}
"""Where little is read: planning, compiling and waiting for stages cost more than the rows."""


def is_local(master: str) -> bool:
    """Whether Spark runs in this process's own JVM."""
    return master == "local" or master.startswith("local[")


def session_settings(master: str, *, is_light: bool) -> dict[str, str]:
    """The settings of a session at this master; `is_light` where little is read."""
    on_loopback = is_local(master) or "//127.0.0.1:" in master or "//localhost:" in master
    return {
        **_ALWAYS,
        **(_LOOPBACK if on_loopback else {}),
        **(_LIGHT if is_light else {}),
    }


def jvm_options(*, is_light: bool) -> str:
    """Options for the driver's JVM: one with little to compute compiles its code plainly (C1)."""
    return "-XX:TieredStopAtLevel=1" if is_light else ""
