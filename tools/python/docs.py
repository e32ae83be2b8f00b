"""Writes the book's page about the package from its docstrings: ``python tools/python/docs.py``.

The package must be installed. With ``--check`` nothing is written, and the exit code is 1 if the page is
not up to date.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import quincunx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python" / "api.md"

MODULES = ["quincunx", "quincunx.dais"]

HEAD = """# All functions and classes

Made from the docstrings by `tools/python/docs.py`. Errors are [`QuincunxError`](#class-quincunxerror) unless
something else is said; images are stacked along the outermost axis of arrays.
"""

ROLE = re.compile(r":(?:data|func|class|meth|attr):`(?:quincunx\.)?([\w.]+)`")


def linked(text: str) -> str:
    """Inline markup of docstrings as that of the book."""

    def link(match: re.Match[str]) -> str:
        name = match[1].removeprefix("~")
        if name.partition(".")[0] not in quincunx.__all__:
            return f"`{name}`"
        return f"[`{name}`](#{anchor(heading(name))})"

    return ROLE.sub(link, text).replace("``", "`")


def anchor(heading: str) -> str:
    """The name by which a link finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def heading(name: str) -> str:
    """The heading of a public name: classes and types could be called as functions are."""
    if "." in name:
        return name
    value = getattr(quincunx, name)
    kind = "" if inspect.isfunction(value) else "class " if inspect.isclass(value) else "type "
    return kind + name


def sections(doc: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a docstring: the text has no name, others are called ``Args`` and the like."""
    name, lines = "", []
    for line in doc.splitlines():
        if re.fullmatch(r"(Args|Attributes|Returns|Raises|Yields|Example):", line):
            yield name, lines
            name, lines = line[:-1], []
        else:
            lines.append(line)
    yield name, lines


def entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Names with what is said about them, of an indented list."""
    entry: tuple[str, list[str]] | None = None
    for line in filter(str.strip, lines):
        start = re.match(r"    (\S[^:]*?): (.*)", line)
        if start and not line.startswith("     "):
            if entry:
                yield entry[0], " ".join(entry[1])
            entry = (start[1], [start[2]])
        elif entry:
            entry[1].append(line.strip())
        else:
            entry = ("", [line.strip()])
    if entry:
        yield entry[0], " ".join(entry[1])


def prose(lines: list[str]) -> str:
    """Text with its examples as blocks of code."""
    blocks = re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))
    shown = []
    for block in blocks:
        if block.lstrip().startswith(">>>"):
            shown.append(f"```python\n{inspect.cleandoc(block)}\n```")
        elif block.startswith("    "):
            shown.append(block)
        else:
            shown.append(linked(block))
    return "\n\n".join(shown)


def described(doc: str | None) -> str:
    """A docstring as Markdown."""
    parts = []
    for name, lines in sections(inspect.cleandoc(doc or "")):
        if name in ("", "Example"):
            parts.append(prose(lines))
        elif name == "Returns":
            parts.append(f"Returns: {linked(' '.join(line.strip() for line in lines if line.strip()))}")
        else:
            title = {"Args": "", "Attributes": "", "Raises": "Raises:\n\n"}.get(name, f"{name}:\n\n")
            rows = (f"- `{key}`: {linked(text)}" for key, text in entries(lines))
            parts.append(title + "\n".join(rows))
    return "\n\n".join(part for part in parts if part.strip())


def argument(parameter: inspect.Parameter) -> str:
    """A parameter with its type and default."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {parameter.annotation}{default}"


def signature(name: str, value: Any) -> str:
    """How it is called, one argument a line where it is long."""
    parameters = [p for p in inspect.signature(value).parameters.values() if p.name != "self"]
    shown, is_open = [], True
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and is_open:
            shown.append("*")
        is_open = is_open and parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        shown.append(argument(parameter))
    result = inspect.signature(value).return_annotation
    ends = "" if result is inspect.Signature.empty else f" -> {result}"
    line = f"{name}({', '.join(shown)}){ends}"
    if len(line) > 100:
        line = f"{name}(\n    " + ",\n    ".join(shown) + f",\n){ends}"
    return f"```python\n{line.replace('npt.NDArray[Any]', 'numpy.ndarray')}\n```"


def members(name: str, value: type) -> Iterator[str]:
    """Methods and properties, in the order of the source."""
    for key, member in vars(value).items():
        if key.startswith("_") or isinstance(member, (type, str)):
            continue
        if isinstance(member, property):
            result = inspect.signature(member.fget).return_annotation if member.fget else ""
            yield f"### {name}.{key}\n\n```python\n{name}.{key}: {result}\n```\n\n{described(member.__doc__)}"
        elif inspect.isfunction(member):
            yield f"### {name}.{key}\n\n{signature(f'{name}.{key}', member)}\n\n{described(member.__doc__)}"


def alias_docs(module: Any) -> dict[str, tuple[str, str]]:
    """Types with names, and the texts behind them, from the sources of a module."""
    body = ast.parse(inspect.getsource(module)).body
    found = {}
    for one, text in zip(body, body[1:]):
        if not (isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[one.target.id] = (ast.unparse(one.value), str(text.value.value))
    return found


def aliases() -> dict[str, tuple[str, str]]:
    """The same of all modules of the package."""
    found: dict[str, tuple[str, str]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("quincunx._") and getattr(module, "__file__", "").endswith(".py"):
            found |= alias_docs(module)
    return found


def part(name: str, value: Any, named: dict[str, tuple[str, str]]) -> str:
    """What there is to say about a public name."""
    short = name.removeprefix("quincunx.")
    if short in named:
        kind, text = named[short]
        return f"## type {short}\n\n```python\n{short} = {kind}\n```\n\n{described(text)}"
    if inspect.isclass(value):
        text = described(value.__doc__)
        return "\n\n".join([f"## class {short}", text, *members(short, value)])
    return f"## {short}\n\n{signature(name, value)}\n\n{described(value.__doc__)}"


def public(module: Any) -> Iterator[tuple[str, Any]]:
    """Public names of a module: functions first, then classes, then types."""
    names = [name for name in module.__all__ if not name.startswith("_")]
    values = {name: getattr(module, name) for name in names}
    order = [inspect.isfunction, inspect.isclass, lambda value: not callable(value) or True]
    for fits in order:
        for name in [name for name, value in values.items() if fits(value)]:
            value = values.pop(name)
            if not inspect.ismodule(value):
                yield name, value


def page() -> str:
    """All of it."""
    parts = [HEAD.rstrip()]
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        named = aliases()
        prefix = "" if name == "quincunx" else name.removeprefix("quincunx.") + "."
        if prefix:
            parts.append(f"## {name}\n\n{described(module.__doc__)}")
        parts += [part(f"quincunx.{prefix}{key}", value, named) for key, value in public(module)]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Writes or checks."""
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
