"""Jars from Maven Central: fetched once by the Ivy that PySpark brings, checked, kept."""

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.extras import require
from kipctl.lab.java import Java
from kipctl.lab.locks import locked
from kipctl.progress import ProgressText
from kipctl.state import own_folder

_SUMS = "SHA256SUMS"
_PINNED = Path(__file__).with_name("pinned")
_TRUST = " As it comes: kipctl knows no checksums of its jars."
# Without them Ivy would take what lies in ~/.ivy2 before it looks further.
_SETTINGS = """\
<ivysettings><settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""


class Module(NamedTuple):
    """What Ivy calls a module: one released version of a library."""

    organisation: str
    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class Download:
    """Modules that are fetched together, with all that they need, and how to speak of them.

    `title` is such as "Kafka 4.3.1"; the jars are kept in a folder named `folder`. The first module
    is the one whose absence means that there is no such version. `otherwise` and `choose` complete
    advice: what else can be done without a repository, and what to ask for instead.
    """

    title: str
    folder: str
    size_mb: int
    modules: tuple[Module, ...]
    otherwise: str
    choose: str
    excluded: tuple[str, str] | None = None
    """Organisation, and a pattern of the names of its modules that are not needed."""

    @property
    def pinned(self) -> Path:
        """The SHA256SUMS of the jars that kipctl was tested with; of few downloads it is there."""
        return _PINNED / self.folder


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/kipctl/kafka, or ~/.cache/kipctl/kafka."""
    return own_folder("CACHE") / "kafka"


def fetched(
    download: Download, java: Java, progress: Callable[[str], None]
) -> tuple[Path, tuple[Path, ...]]:
    """The folder of a download and its jars, from the cache, or fetched into it.

    Raises UnreachableError when no repository can be reached, UsageError when there is no such
    version or no Ivy to fetch it with, RefusedError when a jar is another than it has to be.
    """
    folder = cache_folder() / download.folder
    if not (folder / _SUMS).exists():
        require("pyspark", f"Fetching {download.title}", download.otherwise)
    waiting = "Waiting for another kipctl that fetches Kafka."
    with locked(cache_folder(), lambda: progress(waiting)) as lock:
        if not (folder / _SUMS).exists():
            _fetch(download, folder, java, lock, progress)
    return folder, _verified(folder, download)


def _verified(folder: Path, download: Download) -> tuple[Path, ...]:
    """Each jar has the SHA-256 that is pinned, else the one it had when it was fetched."""
    paths = []
    sums, what = folder / _SUMS, "was fetched"
    if download.pinned.exists():
        sums, what = download.pinned, "kipctl was tested with"
    for line in sums.read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        path = folder / "jars" / name
        try:
            with path.open("rb") as jar:
                actual = hashlib.file_digest(jar, "sha256").hexdigest()
        except OSError:
            actual = "missing"
        if actual != expected:
            raise RefusedError(
                f"{path} is not what {what} (SHA-256 {actual[:12]}, not {expected[:12]}).",
                f"Remove {folder} and repeat: {download.title} is then fetched anew.",
            )
        paths.append(path)
    return tuple(paths)


def _fetch(
    download: Download, folder: Path, java: Java, lock: int, progress: Callable[[str], None]
) -> None:
    """Resolve into a folder beside it, and move that into place when it is whole.

    Ivy checks each file against the SHA-1 that its repository states. What it has already is kept
    between attempts, so one that was cut off goes on where it was. Ivy holds the lock too: should
    kipctl be killed, nobody else writes there before Ivy has ended.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial / "jars", ignore_errors=True)
    (partial / "jars").mkdir(parents=True)
    (partial / "ivy.xml").write_text(_ivy_module(download), encoding="utf-8")
    (partial / "ivysettings.xml").write_text(_SETTINGS, encoding="utf-8")
    command = [str(java.path), "-jar", str(_ivy_jar()), "-ivy", str(partial / "ivy.xml")]
    command += ["-settings", str(partial / "ivysettings.xml"), "-cache", str(partial / "ivy")]
    command += ["-retrieve", f"{partial}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    trust = "" if download.pinned.exists() else _TRUST
    progress(f"Fetching {download.title}: about {download.size_mb} MB, once.{trust}")
    said: deque[str] = deque(maxlen=400)
    modules = arrived = 0
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[lock],
    ) as ivy:
        assert ivy.stdout is not None
        try:
            for line in filter(str.strip, ivy.stdout):
                said.append(line.strip())
                if line.startswith("\tfound "):
                    modules += 1
                    if modules % 10 == 0:
                        progress(f"Fetching {download.title}: found {modules} modules.")
                elif "[SUCCESSFUL ]" in line:
                    arrived += 1
                    if arrived % 10 == 0:
                        text = f"Fetching {download.title}: {arrived} of {modules} jars."
                        progress(ProgressText(text, arrived, modules))
        except BaseException:
            ivy.kill()
            raise
    jars = sorted((partial / "jars").glob("*.jar"))
    if ivy.returncode != 0 or not jars:
        raise _fetch_error(download, list(said))
    sums = []
    for jar in jars:
        with jar.open("rb") as content:
            sums.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {jar.name}\n")
    shutil.rmtree(partial / "ivy", ignore_errors=True)
    (partial / _SUMS).write_text("".join(sums), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    (jar,) = Path(pyspark.origin).with_name("jars").glob("ivy-*.jar")
    return jar


def _ivy_module(download: Download) -> str:
    dependencies = "".join(
        f'<dependency org="{m.organisation}" name="{m.name}" rev="{m.revision}"'
        ' conf="lab->default"/>'
        for m in download.modules
    )
    if download.excluded:
        organisation, names = download.excluded
        dependencies += f'<exclude org="{organisation}" module="{names}" matcher="regexp"/>'
    return (
        '<ivy-module version="2.0"><info organisation="kipctl" module="lab"/>'
        '<configurations><conf name="lab"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _fetch_error(download: Download, said: list[str]) -> KipctlError:
    """What went wrong, from the last lines of Ivy's long answer."""
    text = "\n".join(said)
    if trouble := re.search(r"\b\w+Exception: .*|Host .+ not found.*", text):
        return UnreachableError(
            f"{download.title} could not be fetched: {trouble[0].strip(' )')[:150]}.",
            "Check the network (a proxy for Java is set in JAVA_TOOL_OPTIONS), or "
            f"{download.otherwise}.",
        )
    if download.modules[0].name in text and "not found" in text:
        return UsageError(f"There is no {download.title} to fetch.", download.choose)
    last = said[-1] if said else "it said nothing"
    return UnreachableError(
        f"{download.title} could not be fetched; Ivy's last words: {last[:150]}",
        f"Try again, or {download.otherwise}.",
    )
