"""docs/when-a-leader-moves.md, made again: its pictures, and the figures in its sentences. A lab of
three brokers, nine short runs, each picture from the trace of one of them; then kipctl's own client
beside Java's, each through a tap (`experiment redirect`), for how often they ask for Metadata.

    python benchmarks/leader_moves.py DIR [--page docs/when-a-leader-moves.md]

DIR gets the traces; runs that it has already are not measured again. Every broker has Kafka's own
settings of sessions and of followers. It ends by itself (seven minutes on two cores), and
removes the lab.

A figure stands on the page behind a comment that says where it is from, `<!--SCENE:PATH FORMAT-->`,
and ends at `<!--/-->`: PATH is a place in the summary of that run, with slashes, FORMAT is Python's
(with `s` before it, in seconds where the summary has milliseconds). Read the sentences around the
new figures.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import KAFKAS_SESSION, LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table, table_of

NAME = "leader-moves"
STALE = "1s"
ROTATIONS = ("--during", "rotate", "--every", "4s", "--count", "2")
PRODUCE = ("perf", "produce", "--num-records", "14000", "--warmup-records", "3000")
ACKS_1 = ("--command-property", "acks=1")
KILLED_AFTER_S, BACK_AFTER_S = 6.0, 20.0
WARM_UPS = 2
WAYS = ("kip951", "refresh", "baseline")
BESIDE = ("probe-kip951", "java-4.3.1")
"""Whose Metadata requests are counted beside each other, in one run."""
FIGURE = re.compile(r"(<!--([\w.-]+):(\S+) (s?)([^\s>-]+)-->).*?(?=<!--/-->)")


@dataclass(frozen=True)
class Scene:
    """A run: its command, whether through a tap that shows stale Metadata, whether broker 2 is
    killed meanwhile."""

    command: tuple[str, ...]
    is_stale: bool = False
    is_killed: bool = False


def by_ways(is_stale: bool) -> dict[str, Scene]:
    """One scene for each way to the new leader, with fresh or stale Metadata."""
    name = "stale" if is_stale else "fresh"
    return {
        f"{name}.{way}": Scene(
            (*PRODUCE, "--partitions", "12", *ACKS_1, *ROTATIONS, "--leader-discovery", way),
            is_stale,
        )
        for way in WAYS
    }


SCENES = {
    **by_ways(is_stale=False),
    **by_ways(is_stale=True),
    "acks-all": Scene((*PRODUCE, "--partitions", "12", *ROTATIONS)),
    "rack": Scene(
        (
            *("perf", "e2e", "--num-records", "14000", "--warmup-records", "3000"),
            *("--client-rack", "rack-1", *ROTATIONS),
        ),
    ),
    "killed": Scene(
        ("perf", "produce", "--num-records", "30000", "--partitions", "12", *ACKS_1),
        is_killed=True,
    ),
}
PICTURES = {
    "fresh-timeline": (("fresh.kip951",), "timeline"),
    "fresh-hint": (("fresh.kip951",), "middle"),
    "fresh-refresh": (("fresh.refresh",), "middle"),
    "fresh-baseline": (("fresh.baseline",), "middle"),
    "fresh-waits": (tuple(f"fresh.{way}" for way in WAYS), "waits"),
    "stale-hint": (("stale.kip951",), "middle"),
    "stale-refresh": (("stale.refresh",), "middle"),
    "stale-waits": (tuple(f"stale.{way}" for way in WAYS), "waits"),
    "stale-metadata": (tuple(f"stale.{way}" for way in WAYS), "metadata"),
    "acks-all-timeline": (("acks-all",), "timeline"),
    "acks-all": (("acks-all",), "middle"),
    "killed-timeline": (("killed",), "timeline"),
    "rack-timeline": (("rack",), "timeline"),
    "racks": (("rack",), "racks"),
}
"""By file: of which scenes, and which of their pictures; `middle` is the redirected batch in the
middle of the twenty that took longest."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def kipctl(*arguments: str, at: str) -> list[str]:
    return [sys.executable, "-m", "kipctl", *arguments, "--bootstrap-server", at]


@contextmanager
def stale_metadata(bootstrap: str) -> Any:
    """A tap in front of the brokers for the block; the address that clients are to use."""
    ran = subprocess.Popen(
        kipctl("tap", "--stale-metadata", STALE, at=bootstrap),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.stderr is not None
    try:
        for line in ran.stderr:
            say(f"tap: {line.rstrip()}")
            if addresses := [word for word in line.split() if word.startswith("127.0.0.1:")]:
                yield addresses[0].rstrip(".,;")
                break
    finally:
        ran.terminate()
        ran.communicate()


def run(scene: Scene, lab: Lab, at: str, record: Path) -> None:
    """Raises CalledProcessError unless the run ends with status 0."""
    say(f"{record.name}: {' '.join(scene.command)}")
    command = kipctl(*scene.command, "--yes", "--record", f"{record}", at=at)
    killer = threading.Timer(KILLED_AFTER_S, lab.kill, (2,))
    starter = threading.Timer(BACK_AFTER_S, lab.start, (2,))
    if scene.is_killed:
        killer.start()
        starter.start()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    if scene.is_killed:
        killer.join()
        starter.join()


def measure(folder: Path, names: Sequence[str]) -> None:
    """The traces of these scenes, on one lab."""
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        lab = Lab.up(LabSpec(name=NAME, config=KAFKAS_SESSION), say)
        try:
            at = lab.bootstrap_server
            for number in range(WARM_UPS):
                run(SCENES["acks-all"], lab, at, Path(state) / f"warm-up-{number}")
            for name in names:
                if SCENES[name].is_stale:
                    with stale_metadata(at) as tapped:
                        run(SCENES[name], lab, tapped, folder / name)
                else:
                    run(SCENES[name], lab, at, folder / name)
        finally:
            lab.down()


def measure_beside(into: Path) -> None:
    """The document of `experiment redirect` of these arms."""
    say(f"beside: {', '.join(BESIDE)}")
    command = [sys.executable, "-m", "kipctl", "experiment", "redirect", "--output", "json"]
    ran = subprocess.run(
        [*command, "--arms", ",".join(BESIDE)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    into.write_bytes(ran.stdout)


def beside(document: Mapping[str, Any]) -> dict[str, Any]:
    """Of each arm the moved leaders that it met, and how often it asked for Metadata for each."""
    by_arm = {}
    for arm in document["arms"]:
        met = arm["redirects"]["moves"]["met"]
        asked = arm["metadata_rpcs"]["by_cause"].get("leader_change", 0)
        wait_ms = arm["move_wait_ms"]
        by_arm[arm["arm"]] = {"met": met, "refreshes_a_move": asked / met, "wait_ms": wait_ms}
    return by_arm


def filled(page: str, told: Mapping[str, Any]) -> str:
    """The page with its figures put in anew; `told` has the summary of each run, by its name.

    Raises KeyError for a figure that is not there. A cause or an error that a summary does not
    name was not there: 0.
    """

    def figure(mark: re.Match[str]) -> str:
        comment, scene, path, in_seconds, form = mark.groups()
        value = told[scene]
        for within, key in zip(("", *path.split("/")), path.split("/"), strict=False):
            value = value.get(key, 0) if within in ("by_cause", "errors") else value[key]
        return f"{comment}{value / 1000 if in_seconds else value:{form}}"

    return FIGURE.sub(figure, page)


def documents(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """What a report is made of, by the scenes that it is of."""
    from kipctl.pipeline.pictures import report_document
    from kipctl.pipeline.session import spark_session

    with spark_session(progress=say, is_light=True) as spark:
        return {
            names: report_document(spark, [str(folder / name) for name in names])
            for names in dict.fromkeys(names for names, _ in PICTURES.values())
        }


def drawn(document: dict[str, Any], picture: str) -> str:
    """One of the pictures of a report, as SVG."""
    from kipctl.report.html.parts import svg_file
    from kipctl.report.html.spread import (
        metadata_picture,
        racks_picture,
        waits_picture,
        waterfall_picture,
    )
    from kipctl.report.html.timeline import timeline_picture

    match picture:
        case "timeline":
            [timeline], actions = document["timelines"], document["analysis"]["actions"]
            drawing = timeline_picture(timeline, document["bucket_us"], actions, 1)
        case "middle":
            slowest = document["slowest"]
            drawing = waterfall_picture(slowest[(len(slowest) - 1) // 2], 1)
        case _:
            by_name = {"waits": waits_picture, "metadata": metadata_picture, "racks": racks_picture}
            spread = by_name[picture](document)
            assert spread is not None
            drawing = spread
    return svg_file(drawing)


def draw(by_scenes: Mapping[tuple[str, ...], dict[str, Any]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for file, (names, picture) in PICTURES.items():
        content = drawn(by_scenes[names], picture).encode()
        (folder / f"{file}.svg").write_bytes(content)
        total += len(content)
    say(f"{len(PICTURES)} pictures in {folder}, {total / 1000:,.0f} kB together.")


def figures(
    by_scenes: Mapping[tuple[str, ...], dict[str, Any]], arms: Mapping[str, dict[str, Any]]
) -> Report:
    """What the page tells of each run."""
    from kipctl.report.html.answer import answer

    alone = {names[0]: document for names, document in by_scenes.items() if len(names) == 1}
    rows = []
    for name, document in alone.items():
        metadata = sum(row["requests"] for row in document["analysis"]["metadata"])
        for row in document["arms"]["moves"]:
            waits = (row["wait_ms"][quantile] for quantile in ("p50", "p99", "max"))
            rows.append((name, row["api"], row["moves"], *waits, metadata))
    times = tuple(Column(f"{quantile} ms", 1) for quantile in ("p50", "p99", "max"))
    columns = ("run", "api", "moves met", *times, "Metadata requests")
    answers = {name: answer(document) for name, document in alone.items()}
    table = Table("Waits for moved leaders", columns, tuple(rows))
    closing = tuple(f"{name}: {said}" for name, said in answers.items())
    asked = table_of(
        "Metadata requests for a moved leader",
        [{"arm": name} | arm for name, arm in arms.items()],
        {
            "arm": "arm",
            "moves met": "met",
            Column("wait p50 ms", 1): "wait_ms",
            Column("refreshes a move", 2): "refreshes_a_move",
        },
    )
    return Report(NAME, {"answers": answers, "beside": arms}, (table, asked), closing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, default=Path("docs/when-a-leader-moves.md"))
    parser.add_argument("--pictures", type=Path, default=Path("docs/leader-moves"))
    options = parser.parse_args()
    began = time.monotonic()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.absolute()
    if missing := [name for name in SCENES if not (folder / name / "run.json").exists()]:
        measure(folder, missing)
    arms = folder / "beside.json"
    if not arms.exists():
        measure_beside(arms)
    runs = {name: json.loads((folder / name / "run.json").read_text()) for name in SCENES}
    told = {name: run["summary"] for name, run in runs.items()}
    told["beside"] = beside(json.loads(arms.read_text()))
    options.page.write_text(filled(options.page.read_text("utf-8"), told), encoding="utf-8")
    by_scenes = documents(folder)
    draw(by_scenes, options.pictures)
    write(figures(by_scenes, told["beside"]), OutputFormat.TABLE, sys.stdout, sys.stdout.isatty())
    say(f"It took {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
