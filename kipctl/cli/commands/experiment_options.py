"""Options that experiments share, where their runs are recorded, and the page of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, TypeVar

from kipctl.cli.environment import Environment
from kipctl.cli.options import HtmlOption, OutputOption, option
from kipctl.errors import UsageError
from kipctl.pipeline.place import Place
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Paragraph, Report, Table

if TYPE_CHECKING:
    from kipctl.experiments.arms.arm import Arm
    from kipctl.experiments.arms.stand import Place as StandPlace
    from kipctl.experiments.arms.stand import Stand

AnyDocument = TypeVar("AnyDocument", bound=Mapping[str, object])
Folders = Callable[[str], Path | None]
Message = Callable[[str], None]

RecordRunsOption = Annotated[
    str | None,
    option(
        "--record",
        "Keep the trace of each run: NAME-... in the run store (kipctl runs), or, with a /,"
        " folders in DIR.",
        value="NAME|DIR",
    ),
]


@dataclass(frozen=True)
class ExperimentOptions:
    """Of every experiment: where it runs, what is kept of its runs, what is printed."""

    quick: Annotated[bool, option("A version of about a minute: it shows, it proves little.")] = (
        False
    )
    brokers: Annotated[int | None, option("Of the lab.")] = None
    controllers: Annotated[int | None, option("Of the lab.")] = None
    bootstrap_server: Annotated[
        str | None,
        option(
            "The cluster to use. Default: a lab is made for the experiment, and removed.",
            value="HOST:PORT,...",
        ),
    ] = None
    record: RecordRunsOption = None
    html: HtmlOption = None
    output: OutputOption = OutputFormat.AUTO

    def place(
        self, environment: Environment, of_lab: tuple[int, int] = (3, 1), *, makes_lab: bool = True
    ) -> "StandPlace":
        """The cluster that is named, else a lab of so many brokers and controllers.

        Unless it `makes_lab` the cluster is the one that other commands mean too.
        """
        from kipctl.experiments.arms.stand import Place

        access = environment.access_if_named if makes_lab else environment.access
        return Place(
            access(self.bootstrap_server),
            of_lab[0] if self.brokers is None else self.brokers,
            of_lab[1] if self.controllers is None else self.controllers,
        )

    def report(
        self,
        environment: Environment,
        command: str,
        measure: Callable[[Folders, Message], AnyDocument],
        answer: Callable[[AnyDocument], Sequence[Paragraph]],
        tables: Callable[[AnyDocument], Sequence[Table]],
    ) -> None:
        """Measure, print the result, and write the page of its runs if one is asked for. Without
        `--record` they are there until then.

        Raises UsageError for a place that cannot be, and what `measure` and Spark raise.
        """
        from kipctl.cli.commands.report import report_runs
        from kipctl.extras import require
        from kipctl.report.html.file import check_html
        from kipctl.trace.stored_runs import run_folders

        recorded, folders = run_folders(self.record, environment.variables), list[Path]()
        if self.html:
            check_html(self.html)
            require("pyspark", "--html")
        with TemporaryDirectory(prefix="kipctl-") if self.html else nullcontext("") as scratch:

            def folder(name: str) -> Path | None:
                path = recorded(name) or (Path(scratch, name) if self.html else None)
                folders.extend(filter(None, [path]))
                return path

            with environment.progress():
                document = measure(folder, environment.message)
            opening = tuple(answer(document))
            report = Report(command, document, tuple(tables(document)), opening=opening)
            environment.report(report, self.output)
            if self.html:
                paths = [str(path) for path in folders]
                report_runs(environment, paths, self.html, Place(), result=report)
                environment.message(f"Written: {self.html}")


def on_stand(
    place: "StandPlace",
    arms: Iterable["Arm"],
    run: Callable[["Stand", Folders, Message], AnyDocument],
) -> Callable[[Folders, Message], AnyDocument]:
    """What measures at that place, with the clients of the arms there."""
    from kipctl.experiments.arms.stand import stand_at

    def measure(record: Folders, message: Message) -> AnyDocument:
        with stand_at(place, arms, message) as stand:
            return run(stand, record, message)

    return measure


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Numbers separated by commas. Raises UsageError."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text!r} is no list of numbers.", "Write: 100,6") from None
