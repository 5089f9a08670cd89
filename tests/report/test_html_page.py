"""A report's page: well-formed, all by itself, of a bounded size, and sayable without a picture."""

import re
from collections import Counter
from functools import partial
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from report_documents import described, large, redirected, small, table_row, timeline

from kipctl.report.html import svg
from kipctl.report.html.answer import answer, at_a_glance, doubts, facts
from kipctl.report.html.page import page
from kipctl.report.html.parts import Page
from kipctl.report.html.spread import MOST_LINES, latency_picture, metadata_picture, steps
from kipctl.report.html.svg import Picture
from kipctl.report.tables import Paragraph, Report, Table
from kipctl.report.tap_tables import HINTED

SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 2_000_000
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Elements(HTMLParser):
    """Every element of a page with its attributes; fails where one is not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def svgs(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg .*?</svg>", html, re.DOTALL)]


@pytest.fixture(scope="module")
def drawn() -> Page:
    return page(small())


@pytest.fixture(scope="module")
def small_page(drawn: Page) -> str:
    return drawn.html


@pytest.fixture(scope="module")
def many() -> str:
    """The timelines of its runs are alike, and so are the waterfalls of its batches: the first of
    each is drawn, and stands in the place of the others."""
    draw, first = svg._drawn, {}

    def drawn_once(name: str, *args: Any, **more: Any) -> str:
        kind = re.sub(r"\d+", "", name)
        if kind not in first:
            first[kind] = name, draw(name, *args, **more)
        its_name, text = first[kind]
        return text.replace(its_name, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg, "_drawn", drawn_once)
        return page(large()).html


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures have their words, and nothing is drawn: that takes most of a page's time."""

    def empty(
        name: str, title: str, says: str, draw: svg.Draw, *size: float, is_narrow: bool
    ) -> str:
        return svg._ours("<svg></svg>", name, title, says, *size)

    monkeypatch.setattr(svg, "_drawn", empty)


def test_the_page_of_an_experiment_begins_with_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_nothing(monkeypatch)
    claims = Table("Claims", ("client", "asks for"), (("probe-kip526", "new topics alone"),))
    answered = Paragraph("A client asks alone.", ("Another <b>does not</b>.",))
    plain = page(small())
    again = page(small(), result=Report("experiment metadata", {}, (claims,), opening=(answered,)))
    shown = [word.strip() for word in Elements(again.html).words if word.strip()]
    body = shown.index("kipctl experiment metadata: noon", 1)
    assert shown[body + 2] == "A client asks alone."
    body = shown.index("What was found", shown.index("The runs") + 1)
    assert shown[body + 1] == "Another <b>does not</b>."
    assert shown.index("What was found") < shown.index("new topics alone")
    assert shown.index("new topics alone") < shown.index("What happened, in time", body)
    assert "<h1>kipctl experiment metadata: noon</h1>" in again.html
    # All else is the same every time.
    rest = [
        text.partition('<section aria-labelledby="timeline">') for text in (again.html, plain.html)
    ]
    assert rest[0][1:] == rest[1][1:]
    assert again.pictures == plain.pictures


def test_a_picture_is_the_same_every_time() -> None:
    assert metadata_picture(small()) == metadata_picture(small())


def test_it_is_well_formed_and_every_reference_leads_somewhere(small_page: str, many: str) -> None:
    for html in (small_page, many):
        elements = Elements(html).elements
        ids = Counter(attributes["id"] for _, attributes in elements if "id" in attributes)
        assert [name for name, times in ids.items() if times > 1] == []
        named = {
            name
            for _, attributes in elements
            for name in (attributes.get("aria-labelledby") or "").split()
        }
        named |= {"".join(group) for group in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)}
        assert named <= ids.keys()


def test_every_picture_has_its_words(small_page: str) -> None:
    drawn = svgs(small_page)
    # Wide and narrow: the timeline, waits, latency, Metadata, racks; and a waterfall.
    assert len(drawn) == 2 * 5 + 1
    for drawing in drawn:
        assert drawing.get("role") == "img"
        (title,), (said,) = drawing.findall(f"{SVG}title"), drawing.findall(f"{SVG}desc")
        assert title.text
        assert len(said.text or "") > 20
        assert drawing.get("aria-labelledby") == f"{title.get('id')} {said.get('id')}"
    assert small_page.count("<figcaption>") == 6
    assert small_page.count("<summary>The same as tables</summary>") == 6


def test_it_needs_nothing_from_elsewhere(small_page: str, many: str) -> None:
    for html in (small_page, many):
        outside = re.sub(r'xmlns(:\w+)?="http[^"]*"', "", html)
        assert not re.search(r"https?:|//[\w.-]+\.\w", outside)
        names = {name for tag, attributes in Elements(html).elements for name in (tag, *attributes)}
        assert not names & {"script", "link", "iframe", "img", "src", "object", "embed"}
        assert not [name for name in names if name.startswith("on")]
        assert "@import" not in html
        assert set(re.findall(r"url\((.)", html)) <= {"#"}


def test_its_colours_are_the_page_s_own(small_page: str) -> None:
    assert "#0a0" not in small_page
    for drawing in re.findall(r"<svg .*?</svg>", small_page, re.DOTALL):
        assert re.findall(r"(?:fill|stroke): (#\w+)", drawing) == []
        used = set(re.findall(r"var\((--\w+)\)", drawing))
        assert used
        assert all(f"{name}:" in small_page for name in used)


def test_what_opens_and_scrolls_can_be_reached_by_keyboard(small_page: str) -> None:
    elements = Elements(small_page).elements
    scrolling = [attributes for tag, attributes in elements if attributes.get("class") == "scroll"]
    assert scrolling
    for attributes in scrolling:
        assert attributes["tabindex"] == "0"
        assert attributes["role"] == "region"
        assert attributes["aria-label"]
    tags = Counter(tag for tag, _ in elements)
    assert tags["details"] == tags["summary"]


def test_it_stays_small_however_much_was_measured(many: str) -> None:
    assert len(many.encode()) <= MOST_BYTES
    said = " ".join(Elements(many).words)
    assert f"{80 - MOST_LINES} further lines are not drawn" in said
    assert "The timeline of 76 further runs is not drawn" in said
    assert "7 further rows of 2,000 partitions are left out" in said
    assert "100 of 400 rows are shown" in said
    assert "400 of 10,000 rows" in said


HOSTILE = "<script>alert('x')</script>\"&$a_b$\x1b[31m\u202e\ud800"


def test_names_from_clusters_are_text() -> None:
    document = small()
    document["runs"] = [
        described(HOSTILE, f"_{HOSTILE}", doubts=[HOSTILE], settings={HOSTILE: HOSTILE})
    ]
    document["timelines"] = [timeline(HOSTILE, HOSTILE)]
    document["timelines"][0]["leaders"]["rows"][0]["names"] = [HOSTILE]
    document["timelines"][0]["metadata"][0]["cause"] = HOSTILE
    document["waits"][0] |= {"arm": f"_{HOSTILE}"}
    document["slowest"] = [redirected(topic=HOSTILE, run=HOSTILE)]
    for name in ("reads", "metadata", "rpcs", "actions"):
        for row in document["analysis"][name]:
            row |= {key: HOSTILE for key, value in row.items() if isinstance(value, str)}
            row["arm"] = f"_{HOSTILE}"
    hostile = page(document, version=HOSTILE)
    html = hostile.html.encode("utf-8", "replace").decode()
    assert "<script" not in html
    assert "\x1b" not in html
    assert "<script>alert('x')</script>" in "".join(Elements(html).words)
    assert all(drawing.get("role") == "img" for drawing in svgs(html))
    for text in hostile.pictures.values():
        ElementTree.fromstring(text.encode("utf-8", "replace"))


def test_pictures_alone_are_whole_files(drawn: Page) -> None:
    names = {"timeline1", "waits", "latency", "metadata", "racks", "waterfall1"}
    assert set(drawn.pictures) == names
    for text in drawn.pictures.values():
        [style] = ElementTree.fromstring(text).findall(f"{SVG}style")
        for name in set(re.findall(r"var\((--\w+)\)", text)):
            assert f"{name}:" in (style.text or "")


def test_a_run_in_which_nothing_happened_has_a_page() -> None:
    document = small()
    for name in document["analysis"]["tables"]:
        document["analysis"][name] = []
    document |= {"latencies": [], "waits": [], "slowest": []}
    document["arms"] = {name: [] for name in document["arms"]}
    document["timelines"] = [
        timeline(latency=[], refused=[], metadata=[], until_us=0)
        | {"leaders": timeline()["leaders"] | {"partitions": 0, "rows": []}}
    ]
    html = page(document).html
    assert "No record was acknowledged" in " ".join(Elements(html).words)
    assert len(svgs(html)) == 2


def test_phases_follow_one_another_and_add_up() -> None:
    batch = redirected(3)
    phases = steps(batch)
    assert phases[0] == ("queued 1", 0, 250)
    assert phases[-1][0] == "acknowledge 3"
    assert sum(took for *_, took in phases) == batch["latency_us"]
    for (_, at, took), (_, following, _) in pairwise(phases):
        assert at + took == following


def test_a_batch_waits_in_the_queue_before_it_is_sent_and_after_it_was_refused() -> None:
    batch = redirected(1)
    [failed] = batch["failed_attempts"]
    queued = {"queued_us": 2_000_000, "error_us": 5_090_000, "detect_us": 85_000}
    batch["failed_attempts"] = [{**failed, **queued, "backoff_us": 0}]
    assert [phase for phase, *_ in steps(batch)] == ["queued 1", "detect 1", "acknowledge 1"]
    phases = steps({**batch, "intended_us": 5_000_000})
    assert phases == [
        ("queued 1", 0, 5_000),
        ("detect 1", 5_000, 85_000),
        ("queued again 1", 90_000, 1_995_000),
        ("acknowledge 1", 2_085_000, 3_000),
    ]


def arms(**tables: list[dict[str, Any]]) -> dict[str, Any]:
    document = small()
    document["arms"] = {"records": [], "latency": [], "moves": [], "redirects": []} | tables
    return document


MOVES = partial(table_row, "moves", api="produce", moves=3, wait_ms__p99=1, wait_ms__max=1)
RECORDS = partial(table_row, "records", acknowledged=500)
HINTS = ("hints_present", *(f"hints__{name}" for name in HINTED))
REFUSED = partial(
    table_row,
    "redirects",
    api="produce",
    errors=9,
    hints__absent=9,
    hints__draft=0,
    **dict.fromkeys(HINTS, 0),
)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "No client met a moved leader."),
        (
            {"moves": [MOVES(wait_ms__p50=1, wait_ms__p99=101)]},
            "kipctl's client (kip951) met 3 moved leaders and waited 1.000 ms for each (p50), "
            "1.000 ms at most.",
        ),
        (
            {"moves": [MOVES(wait_ms__p50=0.3), MOVES(arm="librdkafka", wait_ms__p50=101)]},
            "For a moved leader kipctl's client (kip951) waited 0.300 ms (p50), librdkafka "
            "101.0 ms.",
        ),
        (
            {"moves": [MOVES(api=api, wait_ms__p50=0.3) for api in ("fetch", "produce")]},
            "For a moved leader consumer waited 0.300 ms (p50), producer 0.300 ms.",
        ),
        (
            {"records": [RECORDS(failed=0)]},
            "No client met a moved leader; all 500 records were acknowledged.",
        ),
        (
            {"records": [RECORDS(failed=1)]},
            "No client met a moved leader; of 501 records 1 failed.",
        ),
    ],
)
def test_the_answer(tables: dict[str, Any], said: str) -> None:
    assert answer(arms(**tables)) == said


def test_of_a_tap_it_is_told_apart_what_failed_and_what_was_not_seen_again() -> None:
    waits = {"a": 1, "b": 300, "c": 20}
    document = arms(
        records=[RECORDS(failed=9)],
        moves=[MOVES(arm=arm, wait_ms__p50=ms) for arm, ms in waits.items()],
    )
    document["runs"][0]["clients"] = [{"client_id": "a"}]
    run = document["runs"][0]["run"]
    failure = partial(table_row, "failures", run=run)
    document["analysis"]["failures"] = [failure(error=6, records=7), failure(error=10, records=2)]
    assert answer(document) == (
        "Of 3 clients that met moved leaders a waited least, 1.000 ms for each (p50), b longest,"
        " 300.0 ms; of 509 records 2 failed, 7 were not seen again."
    )


def test_a_client_that_got_to_no_moved_leader_is_named_first() -> None:
    moves = [MOVES(arm="a", wait_ms__p50=None), MOVES(arm="b", wait_ms__p50=300)]
    said = answer(arms(records=[RECORDS(failed=0)], moves=moves))
    assert said.startswith("a got to none of the moved leaders met; b met ")


TOOK = partial(table_row, "latency", time="latency", time_ms__p99=40)


@pytest.mark.parametrize(
    ("tables", "rows"),
    [
        ({}, ()),
        (
            {
                "moves": [MOVES(wait_ms__p50=0.6), MOVES(arm="baseline", wait_ms__p50=101)],
                "latency": [TOOK(), TOOK(time="service", time_ms__p99=1)],
                "redirects": [
                    REFUSED(hints_present=8, hints__followed=5, hints__known=3)
                    | {"client_share_ms": {"p50": 0.6}},
                    REFUSED(arm="baseline", hints_present=9, hints__ignored=9),
                ],
            },
            (
                ("baseline", 101, 1, None, 3, "0 of 9", "ignores hints"),
                ("kip951", 0.6, 1, 40, 3, "8 of 8", "follows hints"),
            ),
        ),
        (
            {"redirects": [REFUSED()]},
            (("kip951", None, None, None, 0, "none in 9 refusals", "is sent no hints"),),
        ),
        (
            {"records": [RECORDS(arm="calm")], "latency": [TOOK(arm="calm")]},
            (("calm", None, None, 40, 0, "-", "met no moved leader"),),
        ),
        (
            {"moves": [MOVES(api="fetch", wait_ms__p50=1)], "latency": [TOOK()]},
            (("kip951", 1, 1, None, 3, "-", "met no moved leader"),),
        ),
    ],
    ids=["nothing", "two arms", "no hints", "no move", "records are not a consumer's"],
)
def test_a_row_an_arm(tables: dict[str, Any], rows: tuple[Any, ...]) -> None:
    assert at_a_glance(arms(**tables)).rows == rows


def test_what_a_tap_says_of_a_client_is_its_verdict() -> None:
    said = {"client_id": "shop", "verdict": {"behaviour": "waits"}}
    document = arms(moves=[MOVES(arm="shop", wait_ms__p50=1)], redirects=[REFUSED(arm="shop")])
    document["runs"] = [described(arm="tap", clients=[said, said | {"client_id": "other"}])]
    assert at_a_glance(document).rows[0][-1] == "follows hints after its backoff"
    document["runs"] *= 2
    document["runs"].append(
        described(arm="shop", clients=[said | {"verdict": {"behaviour": "unknown"}}])
    )
    [row] = at_a_glance(document).rows
    assert row[-1] == "follows hints after its backoff (2), cannot be told (1)"


def test_when_and_where_it_was() -> None:
    document = small()
    document["runs"] = [
        described(settings={"cluster_id": "abc", "kafka_version": "4.3.1", "kipctl_version": "-"})
    ]
    assert facts(document) == (
        "2026-01-31 12:00 UTC · 5 s · cluster abc · Kafka 4.3.1 · 1 x rotate"
    )
    document["runs"] += [
        described("late", started="2026-01-31T13:30:07+00:00", span_us=(0, 9_600_000))
    ]
    assert facts(document).startswith(
        "2 runs · 2026-01-31 12:00 UTC to 2026-01-31 13:30 UTC · 5 to 10 s each · cluster abc"
    )


def test_five_slow_batches_are_seen_and_the_rest_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_nothing(monkeypatch)
    document = small()
    document["slowest"] = [redirected(partition=number) for number in range(7)]
    _, _, slowest = page(document).html.partition('<h2 id="slowest">')
    before, folded, _ = slowest.partition("<summary>2 more</summary>")
    assert folded
    assert before.count("A batch of orders-") == 5 * 2  # its summary, and its picture's words


def test_doubts_name_their_run_where_there_are_several() -> None:
    document = small()
    document["runs"] = [described(doubts=["Cold."])]
    assert doubts(document) == ["Cold."]
    document["runs"] += [described("cut", failed="Died."), described("left", stopped=True)]
    document["runs"] += [described("long", end_of="from 3,600 s on")]
    assert doubts(document) == [
        "noon: Cold.",
        "cut: The run failed, and is shown as it is: Died.",
        "left: The run was interrupted, and is shown as it is.",
        "long: It is the end of a longer run: from 3,600 s on.",
    ]


def test_numbers_in_pictures_have_no_exponent() -> None:
    document = small()
    document["analysis"]["metadata"] = [
        table_row("metadata", cause=cause, requests=requests)
        for cause, requests in (("max_age", 2001), ("start", 1))
    ]
    document["runs"] = [described(), described("other")]
    document["latencies"][0]["bins"] = [(900.0, 9_999_999), (40_000.0, 1)]
    assert {"1,000", "0.5"} <= words_in(metadata_picture(document))
    assert {"0.0000001", "1"} <= words_in(latency_picture(document))


def words_in(picture: Picture | None) -> set[str | None]:
    assert picture
    return {text.text for text in ElementTree.fromstring(picture.wide).iter(f"{SVG}text")}
