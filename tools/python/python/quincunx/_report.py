"""Tables and pages, for people and for programs."""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Iterator
from typing import Any

from . import _core


STAY = """<script>
Element.prototype.scrollIntoView = function () {
  const top = (element) => element.getBoundingClientRect().top;
  this.parentElement.scrollTop += top(this) - top(this.parentElement);
};
</script>"""
"""In a frame, what a page shows of its lists must not scroll what is around the frame."""


class Page:
    """A page for a browser: one text of HTML that needs nothing else.

    In a notebook it shows itself, in a frame of its own.
    """

    def __init__(self, text: str, height: int = 600) -> None:
        self._text = text
        self._height = height

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Page of {len(self._text)} characters>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page; what is there is replaced once all of it is written."""
        _core.write(path, self._text.encode())

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self._height}px; border: 1px solid #8888"
        # As high as the contents, where scripts may run; else they scroll.
        inside = "const box = this.contentDocument.body.getBoundingClientRect()"
        height = f"Math.min(box.height + 2 * box.top + 20, {self._height})"
        fit = f"{inside}; this.style.height = {height} + 'px'"
        text = html.escape(self._text.replace("<head>", f"<head>{STAY}", 1))
        return f'<iframe srcdoc="{text}" onload="{fit}" style="{style}"></iframe>'


def picture(svg: bytes) -> str:
    """A drawing in a box of its own size that scrolls; as a file, so that its styles stay in it."""
    text = base64.b64encode(svg).decode()
    image = f'<img src="data:image/svg+xml;base64,{text}" style="max-width: none" alt="">'
    return f'<div style="overflow: auto; max-height: 900px; border: 1px solid #8888">{image}</div>'


class Report:
    """Tables of a verb, as the command line prints them.

    ``str(report)`` is the text for a terminal, ``report[key]`` the rows of one table as dicts, and a
    notebook shows all of them. Keys and values are those of ``--format json``.
    """

    def __init__(self, core: _core.Report) -> None:
        self._core = core
        self._tables: dict[str, Any] | None = None

    def _parsed(self) -> dict[str, Any]:
        if self._tables is None:
            tables: dict[str, Any] = json.loads(self._core.json())
            del tables["schema"]
            self._tables = tables
        return self._tables

    def keys(self) -> list[str]:
        """Names of the tables."""
        return list(self._parsed())

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())

    def __getitem__(self, key: str) -> Any:
        return self._parsed()[key]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the main table."""
        tables = self._parsed()
        rows: list[dict[str, Any]] = tables["rows"] if "rows" in tables else next(iter(tables.values()))
        return rows

    def text(self, columns: int | None = None) -> str:
        """For a terminal of so many columns, if there is a limit."""
        return self._core.text(columns)

    def render(self, format: str) -> str:
        """As ``text``, ``json``, ``md``, ``csv`` or ``html``."""
        return self._core.render(format)

    def __str__(self) -> str:
        return self.text().rstrip()

    def __repr__(self) -> str:
        return f"<Report: {', '.join(self.keys())}>"

    def _repr_html_(self) -> str:
        lines = len(self.text().splitlines())
        return Page(self.render("html"), min(120 + 28 * lines, 900))._repr_html_()
