"""A report's page in headless Chromium, at 1400 and 390 pixels, light and dark: pictures to look
at, and what a program can find: words cut off or on one another, a page that is too wide, what the
keyboard does not reach, errors of the console.

    kipctl report RUN --html page.html
    python benchmarks/report_page.py page.html --pictures DIR

The status is 1 if something was found. Needed: Chromium (`chromium` of Debian and others).
"""

import argparse
import json
import re
import subprocess
import sys
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

WIDTHS = (1400, 390)
SCHEMES = {"dark": 0, "light": 1}
TIMEOUT_S = 300
LOOK = """
<script>
const found = {width: [document.documentElement.scrollWidth, innerWidth], cut: [], overlap: [],
               pictures: 0, focusable: 0, unreachable: []};
const shown = (element) => element.getClientRects().length > 0;
for (const svg of document.querySelectorAll("svg")) {
  if (!shown(svg)) continue;
  found.pictures += 1;
  const frame = svg.getBoundingClientRect();
  const words = [...svg.querySelectorAll("text")].map((text) => [text.textContent.trim(),
    text.getBoundingClientRect()]).filter(([word]) => word);
  for (const [word, box] of words)
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
        box.bottom > frame.bottom + 1) found.cut.push(word);
  words.forEach(([word, a], at) => words.slice(at + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    const least = Math.min(a.width * a.height, b.width * b.height);
    if (wide > 0 && high > 0 && wide * high > 0.2 * least) found.overlap.push([word, other]);
  }));
}
for (const element of document.querySelectorAll("a, summary, .scroll")) {
  if (!shown(element)) continue;
  element.focus();
  if (document.activeElement === element) found.focusable += 1;
  else found.unreachable.push(element.outerHTML.slice(0, 80));
}
const told = document.createElement("pre");
told.id = "found";
told.textContent = JSON.stringify(found);
parent.document.body.replaceChildren(told);
</script>
"""


def chromium(page: Path, width: int, scheme: str, profile: str, *options: str) -> tuple[str, str]:
    """What Chromium printed of a page, and its console."""
    ran = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            f"--window-size={width},2400",
            *options,
            page.absolute().as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    return ran.stdout, "\n".join(console)


def looked_at(page: Path, width: int, scheme: str, folder: Path) -> dict[str, Any]:
    """What is found in the page when all of it is open."""
    opened = folder / "opened.html"
    html = page.read_text(encoding="utf-8").replace("<details>", "<details open>")
    # In a frame: a window of its own may not be so narrow.
    framed = escape(html.replace("</body>", f"{LOOK}</body>"))
    frame = f'<iframe style="width: {width}px; height: 2000px; border: 0" srcdoc="{framed}">'
    opened.write_text(f"<!doctype html><body>{frame}</iframe></body>", encoding="utf-8")
    dom, console = chromium(opened, width, scheme, str(folder / "profile"), "--dump-dom")
    [text] = re.findall(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    facts: dict[str, Any] = json.loads(unescape(text))
    return facts | {"console": console}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    asked = parser.parse_args()
    bad = 0
    with TemporaryDirectory() as scratch:
        for width in WIDTHS:
            for scheme in SCHEMES:
                facts = looked_at(asked.page, width, scheme, Path(scratch))
                too_wide = facts["width"][0] > facts["width"][1]
                print(
                    f"{facts['width'][1]} {scheme}: {facts['pictures']} pictures, "
                    f"{facts['focusable']} links, tables and details reached by keyboard"
                    f"{'; the page is too wide' if too_wide else ''}"
                )
                for what in ("cut", "overlap", "unreachable"):
                    if facts[what]:
                        print(f"  {what}: {facts[what][:10]} ({len(facts[what])})")
                if facts["console"]:
                    print(f"  {facts['console']}")
                bad += too_wide or any(
                    facts[what] for what in ("cut", "overlap", "unreachable", "console")
                )
                if asked.pictures:
                    asked.pictures.mkdir(parents=True, exist_ok=True)
                    file = asked.pictures.absolute() / f"{asked.page.stem}-{width}-{scheme}.png"
                    profile = str(Path(scratch) / "profile")
                    chromium(asked.page, width, scheme, profile, f"--screenshot={file}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
