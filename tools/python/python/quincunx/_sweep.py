"""One network on many machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from . import _core
from ._arrays import Data, data
from ._errors import QuincunxError, misused
from ._model import Model, ModelLike, Progress, load
from ._program import Option, texts, wanted
from ._report import Report, picture


@dataclass(frozen=True)
class Task:
    """Everything that a worker needs to compute points: plain values, so that it can be sent."""

    source: tuple[Any, ...]
    machine: Any
    vary: list[tuple[str, list[str]]]
    over: list[tuple[str, list[str]]]
    places: list[list[int]] | None
    random: tuple[int, int] | None
    data: Data | None
    calibrate: Data | None
    strict: bool
    fold_batch_norm: bool
    name: str = field(default_factory=lambda: uuid4().hex)

    def points(self) -> _core.Sweep:
        """The points of the sweep."""
        model = _core.load(*self.source)

        def given(value: Data | None) -> Any:
            return None if value is None else data(value, model.inputs, 1)

        how = {
            "machine": self.machine,
            "vary": self.vary,
            "over": self.over,
            "places": self.places,
            "random": self.random,
            "data": given(self.data),
            "calibrate": given(self.calibrate),
            "strict": self.strict,
            "fold_batch_norm": self.fold_batch_norm,
        }
        return _core.sweep(model, how)


@dataclass(frozen=True)
class Answer:
    """What a worker says about a point.

    Attributes:
        finding: What became of it, as JSON; failures of the model on the machine are findings.
        error: What stops the whole sweep: text, problems, exit code.
    """

    finding: str | None
    error: tuple[Any, ...] | None = None


_kept: dict[str, _core.Sweep] = {}


def computed(task: Task, point: int) -> Answer:
    """What becomes of a point. A worker keeps what the points of a sweep share."""
    try:
        points = _kept.get(task.name)
        if points is None:
            _kept.clear()
            points = _kept[task.name] = task.points()
        return Answer(points.finding(point))
    except QuincunxError as error:
        return Answer(None, error.args)


class Sweep:
    """The result of :func:`sweep`: rows, tables and pictures, which a notebook shows.

    Attributes:
        report: The tables of ``quincunx sweep``.
        pictures: SVG by name: ``scatter`` (time against accuracy, error or size, with the front of what
            nothing beats), ``coordinates`` (an axis for everything), and of a whole grid ``picture``.
        computed: Points that were computed; all others were in the store.
    """

    def __init__(
        self, report: Report, pictures: dict[str, str], computed: int, metrics: Sequence[str] | None
    ) -> None:
        self.report = report
        self.pictures = pictures
        self.computed = computed
        self._metrics = metrics

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict per combination: what varied, ``status``, ``pareto``, figures, ``problem``."""
        rows = self.report.rows
        if self._metrics is None:
            return rows
        known = set(rows[0]) if rows else set()
        unknown = [name for name in self._metrics if name not in known]
        if unknown:
            raise misused(f'no figure is named "{unknown[0]}"', f"figures are {', '.join(sorted(known))}")
        figures = {"accuracy", "bytes", "cycles", "device_mac_share", "instructions", "microseconds"}
        dropped = (figures | {"max_difference", "rms_difference"}) - set(self._metrics)
        return [{key: value for key, value in row.items() if key not in dropped} for row in rows]

    @property
    def pareto(self) -> list[dict[str, Any]]:
        """The rows that nothing beats."""
        return [row for row in self.rows if row["pareto"]]

    def __str__(self) -> str:
        return str(self.report)

    def __repr__(self) -> str:
        count = len(self.report.rows)
        return f"<Sweep of {count} combinations, {len(self.pareto)} of them best>"

    def _repr_html_(self) -> str:
        drawn = "".join(picture(text.encode()) for text in self.pictures.values())
        return self.report._repr_html_() + drawn


def _source(model: Model) -> tuple[Any, ...]:
    """A model as workers can read it, which may be on other machines."""
    if model._source is None:
        return (None, model.onnx(), model.name, ([], [], [], [], []))
    path, text, name, part = model._source
    return (None, text, name, part) if path is None else (os.path.abspath(path), None, name, part)


def _begun(task: Task) -> tuple[Task, _core.Sweep]:
    """The task with the file in it, where that is all that workers need, and its points."""
    path, _, _, part = task.source
    if path is not None:
        try:
            sent = replace(task, source=(None, Path(path).read_bytes(), path, part))
            return sent, sent.points()
        except (OSError, QuincunxError):
            # It has parts in other files, which workers must reach; or the path says what is wrong.
            pass
    return task, task.points()


def _sent(value: Data | None) -> Data | None:
    """Data as workers can read it: arrays of a file of numpy."""
    if isinstance(value, (str, os.PathLike)) and os.fspath(value).endswith((".npz", ".npy")):
        loaded = np.load(os.fspath(value), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def _words(values: Iterable[Option]) -> list[str]:
    return [text for _, text in texts({str(number): value for number, value in enumerate(values)})]


def _varied(varied: Mapping[str, Iterable[Option]] | None) -> list[tuple[str, list[str]]]:
    return [(name, _words(values)) for name, values in (varied or {}).items()]


def _listed(
    points: Sequence[Mapping[str, Option]],
) -> tuple[list[tuple[str, list[str]]], list[list[int]]]:
    """What varies in a list of combinations, and the places of their values."""
    names = list(points[0]) if points else []
    if not names or any(set(point) != set(names) for point in points):
        raise misused("expected combinations with the same names, and one at least")
    vary: list[tuple[str, list[str]]] = [(name, []) for name in names]
    places = []
    for point in points:
        place = []
        for name, known in vary:
            [word] = _words([point[name]])
            if word not in known:
                known.append(word)
            place.append(known.index(word))
        places.append(place)
    return vary, places


def sweep(
    model: ModelLike,
    target: str,
    vary: Mapping[str, Iterable[Option]] | None = None,
    *,
    points: Sequence[Mapping[str, Option]] | None = None,
    random: int | None = None,
    seed: int = 0,
    over: Mapping[str, Iterable[Option]] | None = None,
    data: Data | None = None,
    calibrate: Data | None = None,
    arch: str | os.PathLike[str] | None = None,
    strict: bool = False,
    fold_batch_norm: bool = True,
    metrics: Sequence[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    engine: Any = "local",
    workers: int | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
    **options: Option,
) -> Sweep:
    """Compiles a network for many machines, or with options or widths that differ, and finds the best.

    Args:
        model: See :data:`quincunx.ModelLike`. Workers get it once.
        target: The target, also with a preset: ``"tcu@bench8"``.
        vary: What varies and the values it takes, for every combination: fields of the machine file
            (``"array_size"``, those in tables as ``"cost.clock_mhz"``), options of the target, and how the
            network is quantised (``"quantise.weights"``, ``"quantise.activations"`` in bits,
            ``"quantise.scheme"``, ``"quantise.method"``).
        points: In place of ``vary``: the combinations one by one, as dicts with the same names.
        random: Only so many of the combinations of ``vary``, drawn at random.
        seed: Where the draw begins.
        over: What varies within a row, which has the mean, least and largest accuracy.
        data: Images to simulate every machine on, with ``labels`` for the accuracy.
        calibrate: Data to quantise a float network with.
        arch: The machine from which the others differ: a preset, a file, or the text of one.
        strict: A machine that does not take a node does not fit.
        fold_batch_norm: Batch normalisations become part of the layers before them.
        metrics: Figures that rows have; all if ``None``.
        store: A file (SQLite) that keeps what is found, under a key of model, data, machine, options and
            version. What it holds is not computed again, so that a sweep that was stopped goes on.
        engine: ``"local"`` (processes of this machine), ``"dask"``, ``"ray"``, or a client of Dask. Rows are
            the same with all.
        workers: How many; for ``"local"`` as many as there are processors, for a local cluster 2.
        memory: Most bytes of a worker of ``"local"``. A point that takes more is a row that says so.
        progress: See :data:`quincunx.Progress`.
        **options: Options of the target, for all.

    Returns:
        Rows, tables and pictures. What a machine does not take is a row with its reason.

    Raises:
        QuincunxError: What no combination can have, or a network or data that cannot be read.
    """
    from ._engines import named

    if (vary is None) == (points is None):
        raise misused("expected either vary or points")
    if random is not None and (points is not None or random < 1):
        raise misused("random draws a positive number of the combinations of vary")
    run = named(engine, workers, memory)
    places = None
    varied = _varied(vary)
    if points is not None:
        varied, places = _listed(points)
    task = Task(
        source=_source(load(model)),
        machine=wanted(target, arch, options),
        vary=varied,
        over=_varied(over),
        places=places,
        random=None if random is None else (random, seed),
        data=_sent(data),
        calibrate=_sent(calibrate),
        strict=strict,
        fold_batch_norm=fold_batch_norm,
    )
    task, all = _begun(task)
    kept = None if store is None else _core.Store(store)
    count = len(all)
    # A machine can be written in several ways: equal points are computed once.
    keys = [all.key(point) for point in range(count)]
    known: dict[str, str] = {}
    first: dict[str, int] = {}
    for point, key in enumerate(keys):
        found = kept.get(key) if kept is not None and key not in known else None
        if found is not None:
            known[key] = found
        elif key not in known:
            first.setdefault(key, point)
    missing = list(first.values())
    if progress is not None:
        progress("sweep", count - len(missing), count)
    for done, (point, answer) in enumerate(run(task, missing), start=1):
        if answer.finding is None:
            assert answer.error is not None
            raise QuincunxError(*answer.error)
        known[keys[point]] = answer.finding
        if kept is not None:
            kept.put(keys[point], all, point, answer.finding)
        if progress is not None:
            progress("sweep", count - len(missing) + done, count)
    report, pictures = all.finished([known[key] for key in keys])
    return Sweep(Report(report), dict(pictures), len(missing), metrics)


def stored(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All rows of a store, of any number of sweeps, with what varied under ``point``."""
    import sqlite3

    with sqlite3.connect(f"file:{Path(path).absolute()}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM points ORDER BY rowid")]
    for row in rows:
        row["point"] = json.loads(row["point"])
        del row["finding"]
    return rows


def gather(into: str | os.PathLike[str], parts: Iterable[str | os.PathLike[str]]) -> int:
    """Puts the rows of several stores into one, which may be new; how many rows it has then."""
    import sqlite3

    _core.Store(into)
    with sqlite3.connect(into) as connection:
        for part in parts:
            if not Path(part).is_file():
                raise misused(f"there is no store {os.fspath(part)}")
            _core.Store(part)
            connection.execute("ATTACH ? AS part", (os.fspath(part),))
            connection.execute("INSERT OR IGNORE INTO points SELECT * FROM part.points")
            connection.commit()
            connection.execute("DETACH part")
        [(count,)] = connection.execute("SELECT count(*) FROM points").fetchall()
    connection.close()
    return int(count)
