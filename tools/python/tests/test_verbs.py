"""`compare`, `report`, `targets`, `isa`, `explain`; tables, pages and what a notebook shows."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import DIGITS, MACHINES

import quincunx
from quincunx import QuincunxError

FILE = DIGITS / "digits.onnx"
TEST = DIGITS / "test.npz"

@pytest.fixture(scope="session")
def compared(model: quincunx.Model) -> quincunx.Report:
    """The example on two machines."""
    return quincunx.compare(model, TEST, ["tcu@bench8", "npu"], calibrate=DIGITS / "calib.npz", layers=True)


def without_clocks(tables: dict[str, Any]) -> dict[str, Any]:
    """All but what is different in every run: how fast Quincunx itself is."""
    tables = {key: [dict(row) for row in rows] for key, rows in tables.items() if key != "schema"}
    for row in tables["rows"]:
        del row["seconds_compile"], row["images_per_second"]
    for row in tables["programs"]:
        del row["seconds_compile"], row["simulated_per_second"]
    return tables


def test_comparing_like_the_command_line(compared: quincunx.Report, command: Callable[..., str]) -> None:
    targets = ["--target", "tcu@bench8,npu", "--calibrate", DIGITS / "calib.npz", "--layers"]
    theirs = json.loads(command("compare", FILE, "--data", TEST, *targets, "--format", "json", "--table", "all"))
    assert without_clocks(json.loads(compared.render("json"))) == without_clocks(theirs)


def test_what_comparing_finds(compared: quincunx.Report) -> None:
    assert [(row["target"], row["machine"]) for row in compared.rows] == [("tcu", "bench8"), ("npu", "gemini")]
    assert all(row["images"] == row["bit_exact"] == 360 for row in compared.rows)
    assert {"rows", "programs", "errors", "memories", "costs", "layers"} <= set(compared)


def test_all_machines_and_options(model: quincunx.Model) -> None:
    told: list[str] = []
    report = quincunx.compare(
        model,
        "random:3",
        images=2,
        calibrate=DIGITS / "calib.npz",
        threads=2,
        fold_batch_norm=False,
        progress=lambda what, done, of: told.append(what),
        effort="fast",
        level_delay=0.001,
    )
    assert [row["target"] for row in report.rows] == list(MACHINES) and told
    assert all(row["images"] == row["bit_exact"] == 2 for row in report.rows)


def test_the_same_comparison_for_any_number_of_threads(model: quincunx.Model) -> None:
    def tables(threads: int) -> dict[str, Any]:
        report = quincunx.compare(model, "random:5", ["tcu", "npu"], images=40, threads=threads)
        return without_clocks(json.loads(report.render("json")))

    assert tables(1) == tables(2)


def test_a_table_is_a_mapping(compared: quincunx.Report) -> None:
    keys = compared.keys()
    assert list(compared) == keys and len(compared) == len(keys) and "rows" in keys
    assert compared["rows"] == compared.rows
    with pytest.raises(KeyError):
        compared["nothing"]
    assert str(compared) == compared.text().rstrip() == compared.render("text").rstrip()
    assert max(map(len, compared.text(60).splitlines())) <= 60
    for format, part in {"json": "{", "md": "|", "csv": ",", "html": "<table"}.items():
        assert part in compared.render(format)


def test_one_page_about_a_network(model: quincunx.Model, tmp_path: Path) -> None:
    page = quincunx.report(model, TEST, ["tcu", "npu"], shown=[0, 3], calibrate=DIGITS / "calib.npz")
    assert "digits.onnx" in str(page) and "gemini" in str(page)
    page.save(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == str(page)
    with pytest.raises(QuincunxError, match="Q0518"):
        page.save(tmp_path)


def test_the_page_is_that_of_the_command_line(
    model: quincunx.Model, command: Callable[..., str], tmp_path: Path
) -> None:
    command("report", FILE, "--data", TEST, "--target", "tcu", "-o", tmp_path / "page.html")
    assert str(quincunx.report(model, TEST, "tcu")) == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_one_page_about_programs(programs: dict[str, quincunx.Program]) -> None:
    page = quincunx.report([programs["tcu"], programs["npu"]])
    assert "pynqz1" in str(page) and "gemini" in str(page)


def test_machines_and_their_manuals(command: Callable[..., str]) -> None:
    assert [row["target"] for row in quincunx.targets().rows] == list(MACHINES)
    for name in MACHINES:
        own = json.loads(quincunx.targets(name).render("json"))
        assert own == json.loads(command("targets", name, "--format", "json"))
        for format in ("text", "md", "json", "csv", "html"):
            assert quincunx.isa(name, format=format) == command("isa", name, "--format", format)
    assert quincunx.isa("dais", "add").startswith("add {a}")
    assert quincunx.isa("dais", "add").strip() == command("isa", "dais", "add").strip()


def test_messages_are_explained(command: Callable[..., str]) -> None:
    assert quincunx.explain("Q0605", "Q0811").strip() == command("explain", "Q0605", "Q0811").strip()
    assert "Q0810" in quincunx.explain()


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: quincunx.targets("tcuu"), "Q0601"),
        (lambda: quincunx.isa("tcuu"), "Q0601"),
        (lambda: quincunx.isa("dais", "addd"), "Q0639"),
        (lambda: quincunx.isa("dais", format="yaml"), "Q0811"),
        (lambda: quincunx.targets().render("yaml"), "Q0811"),
        (lambda: quincunx.explain("Q9998"), "Q0650"),
        (lambda: quincunx.compare(FILE, TEST, "tcuu"), "Q0601"),
        (lambda: quincunx.compare(FILE, TEST, []), "Q0811"),
        (lambda: quincunx.compare(FILE, TEST, "tcu", efort="max"), "Q0811"),
        (lambda: quincunx.report(FILE), "Q0811"),
        (lambda: quincunx.report([]), "Q0811"),
        (lambda: quincunx.report([3]), "Q0811"),  # type: ignore[list-item]
        (lambda: quincunx.report([], TEST), "Q0811"),
        (lambda: quincunx.report(FILE, TEST, "tcu", shown=[360]), "Q0812"),
        (lambda: quincunx.report(FILE, TEST, "tcu", shown=[-1]), "Q0811"),
    ],
)
def test_what_is_wrong_has_a_code(wrong: Callable[[], object], code: str) -> None:
    with pytest.raises(QuincunxError) as caught:
        wrong()
    assert caught.value.code == code and code in quincunx.explain(code)


class Tags(HTMLParser):
    """Names and attributes of all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))


def shown(value: Any) -> list[tuple[str, dict[str, str | None]]]:
    """What a notebook shows; nothing of it may reach into the notebook or for a network."""
    text: str = value._repr_html_()
    tags = Tags(text).all
    assert {tag for tag, _ in tags} <= {"iframe", "div", "img", "p"}
    for tag, attributes in tags:
        source = attributes.get("srcdoc") or ""
        assert not re.search(r"""(src|href)=["']?https?:""", source)
        assert tag != "img" or (attributes["src"] or "").startswith("data:image/svg+xml;base64,")
    return tags


def test_notebooks_show_tables_timelines_and_drawings(
    compared: quincunx.Report, programs: dict[str, quincunx.Program]
) -> None:
    (frame,) = shown(compared)
    assert "<table" in (frame[1]["srcdoc"] or "")
    for program in programs.values():
        timing = program.time()
        assert [tag for tag, _ in shown(timing)] == ["iframe"] * len(timing.pages)
        assert all("Timeline" in (attributes["srcdoc"] or "") for _, attributes in shown(timing))
    assert [tag for tag, _ in shown(programs["dais"])] == ["iframe", "div", "img"]
    picture = shown(programs["dais"])[2][1]["src"] or ""
    assert b"Adder graph" in base64.b64decode(picture.split(",")[1])
    frames = shown(programs["scamp"])
    assert len(frames) == 2 and "Registers step by step" in (frames[1][1]["srcdoc"] or "")
    assert len(shown(programs["tcu"])) == 1
    verdict = programs["tcu"].verify()
    assert [tag for tag, _ in shown(verdict)] == ["p", "iframe"] and "ok" in html.unescape(verdict._repr_html_())


def test_everything_has_a_short_name(
    model: quincunx.Model, compared: quincunx.Report, programs: dict[str, quincunx.Program]
) -> None:
    values: list[object] = [model, compared, *programs.values(), programs["tcu"].verify()]
    values += [program.time() for program in programs.values()] + [*programs["tcu"].time().pages.values()]
    values += [model.inputs[0], model.nodes[0], programs["tcu"].plan[0], programs["tcu"].stats]
    with pytest.raises(QuincunxError) as caught:
        quincunx.compile(model, "scamp", strict=True, effort="fast")
    values += [caught.value.problems[0]]
    for value in values:
        text = repr(value)
        assert "\n" not in text and len(text) < 300 and "object at 0x" not in text, text


