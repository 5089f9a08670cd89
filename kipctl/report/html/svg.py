"""Pictures by matplotlib as SVG whose colours are the page's, and whose text is text.

Importing this module imports matplotlib, which takes half a second: only what draws does.
"""

import io
import logging
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from kipctl.report.printable import printable

FG, MUTED, GRID = "#0a0b01", "#0a0b02", "#0a0b03"
SERIES = tuple(f"#0a0c{number:02x}" for number in range(1, 9))
"""Colours that stand for those of the page, by their names in page.css."""
_VARIABLES = {FG: "--fg", MUTED: "--muted", GRID: "--grid"} | {
    colour: f"--c{number}" for number, colour in enumerate(SERIES, 1)
}
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)), (0, (3, 1, 1, 1, 1, 1)))
"""Styles of lines, so that colour is never alone."""
WIDE, NARROW = 1040, 350
"""Widths in CSS pixels, for screens and for phones."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kipctl",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": FG,
    "text.color": FG,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.8,
    "hatch.linewidth": 0.6,
}
_POINTS_AN_INCH = 72
_LONGEST = 24

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where it keeps its fonts is its own


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing in two widths, with what it is called and what it shows in words."""

    name: str
    title: str
    says: str
    wide: str
    narrow: str


Draw = Callable[[Figure, bool], None]
"""Draws on an empty figure; whether it is the narrow one."""


def picture(
    name: str,
    title: str,
    says: str,
    draw: Draw,
    heights: tuple[float, float],
    *,
    small: bool = False,
) -> Picture:
    """The drawing as SVG, `heights` CSS pixels high where it is wide and narrow. A `small` one is
    as wide as a phone everywhere. `name` is unique in a page: a letter, then letters and digits."""
    wide, narrow = heights
    drawn = _drawn(f"{name}n", title, says, draw, NARROW, narrow, is_narrow=True)
    return Picture(
        name,
        title,
        says,
        "" if small else _drawn(f"{name}w", title, says, draw, WIDE, wide, is_narrow=False),
        drawn,
    )


def short(text: str, longest: int = _LONGEST) -> str:
    """A name as a label: control characters written out, its middle left out where it is long."""
    plain = text.encode("utf-8", "replace").decode()
    shown = printable(plain).replace("\n", " ").replace("\t", " ").strip() or "-"
    if len(shown) > longest:
        half = (longest - 1) // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    # matplotlib leaves out of legends what begins with an underscore.
    return f"\u2060{shown}" if shown.startswith("_") else shown


def plain_axes(axes: Axes, title: str = "") -> None:
    """No ticks, and a title."""
    axes.tick_params(length=0, pad=6)
    if title:
        axes.set_title(title, fontweight="bold")


def _drawn(
    name: str, title: str, says: str, draw: Draw, width: float, height: float, *, is_narrow: bool
) -> str:
    size = 10.5 if is_narrow else 12
    style = _STYLE | {"font.size": size, "axes.titlesize": size, "legend.fontsize": size}
    style |= {"xtick.labelsize": size - 1, "ytick.labelsize": size - 1, "axes.labelsize": size - 1}
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that its font lacks: the reader's has them
        figure = Figure(
            figsize=(width / _POINTS_AN_INCH, height / _POINTS_AN_INCH),
            dpi=_POINTS_AN_INCH,
            layout="constrained",
        )
        FigureCanvasSVG(figure)
        draw(figure, is_narrow)
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", metadata=nothing)
    return _ours(written.getvalue(), name, title, says, width, height)


def _ours(svg: str, name: str, title: str, says: str, width: float, height: float) -> str:
    """The SVG for a page of ours: its ids are its own, its colours variables, its words said."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    named = set(re.findall(r'(?:xlink:href="|url\()#([^")]+)', body))
    body = re.sub(
        r' id="([^"]*)"',
        lambda match: f' id="{name}-{match[1]}"' if match[1] in named else "",
        body,
    )
    body = re.sub(r'((?:xlink:href="|url\()#)', rf"\1{name}-", body)
    body = re.sub(r'\b(?:d|x|y)="[^"]*"', _shortened, body)
    body = re.sub(r' transform="rotate\(-0 [^"]*"|font-family: [^;"]*(?:; )?|<g>\s*</g>', "", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    body = re.sub(r"\n\s*", "\n", body)
    shown = escape(printable(title)), escape(printable(says))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{shown[0]}</title>'
        f'<desc id="{name}-d">{shown[1]}</desc>{body.strip()}'
    )


def _shortened(attribute: re.Match[str]) -> str:
    """Coordinates to a tenth of a pixel, without spaces that nothing needs."""
    exact = re.sub(r"(\.\d)\d+", r"\1", attribute[0])
    return re.sub(r"\s*([MLQCz])\s*", r"\1", exact)
