"""Verbs about several machines, and about machines themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from ._arrays import Data, data
from ._errors import misused, whole, whole_or_none
from ._model import Model, ModelLike, Progress, load
from ._program import Option, Program, wanted
from ._report import Page, Report


def _comparing(
    model: Model,
    inputs: Data,
    targets: str | Sequence[str] | None,
    *,
    images: int,
    calibrate: Data | None,
    fold_batch_norm: bool,
    layers: bool,
    threads: int | None,
    options: Mapping[str, Option],
) -> dict[str, Any]:
    names = [row["target"] for row in Report(_core.targets(None)).rows] if targets is None else targets
    if isinstance(names, str):
        names = [names]
    known = {name: set(_core.options(name.split("@")[0])) for name in names}
    spelt = {name.replace("_", "-"): value for name, value in options.items()}
    for name in spelt:
        if not any(name in own for own in known.values()):
            raise misused(f'no target has an option "{name}"', "see quincunx.targets(NAME)")
    machines = [
        wanted(name, None, {key: value for key, value in spelt.items() if key in known[name]})
        for name in names
    ]
    return {
        "machines": machines,
        "data": data(inputs, model._core.inputs, images),
        "calibrate": None if calibrate is None else data(calibrate, model._core.inputs, 1),
        "fold_batch_norm": fold_batch_norm,
        "layers": layers,
        "threads": whole_or_none("threads", threads),
    }


def compare(
    model: ModelLike,
    inputs: Data,
    targets: str | Sequence[str] | None = None,
    *,
    images: int = 1,
    calibrate: Data | None = None,
    fold_batch_norm: bool = True,
    layers: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Option,
) -> Report:
    """One network on several machines: what each takes, how exact and how fast it is.

    Args:
        model: See :data:`quincunx.ModelLike`.
        inputs: Images to judge on, with ``labels`` for the accuracy; see :data:`quincunx.Data`.
        targets: Machines, as in ``["tcu@bench8", "npu"]``; all targets if ``None``.
        images: How many to make up, where that is asked for.
        calibrate: Data to quantise a float model with.
        fold_batch_norm: Batch normalisations become part of the layers before them.
        layers: A further table: how far every layer is from the network.
        threads: Threads; the result does not depend on it.
        progress: See :data:`quincunx.Progress`.
        **options: Options; each goes to every target that has it. Searches are short unless an option says
            otherwise, as in ``quincunx compare``.

    Returns:
        Tables ``rows``, ``programs``, ``errors``, ``memories``, ``costs`` and ``host``. What a machine
        cannot do is warned of.
    """
    model = load(model)
    how = _comparing(
        model,
        inputs,
        targets,
        images=images,
        calibrate=calibrate,
        fold_batch_norm=fold_batch_norm,
        layers=layers,
        threads=threads,
        options=options,
    )
    return Report(_core.compare(model._core, how, progress))


def report(
    model: ModelLike | Sequence[Program],
    inputs: Data | None = None,
    targets: str | Sequence[str] | None = None,
    *,
    images: int = 1,
    shown: Sequence[int] = (0,),
    calibrate: Data | None = None,
    fold_batch_norm: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Option,
) -> Page:
    """One page about a network on several machines: summary, placement, layers, timelines, rooflines,
    feature maps.

    Args:
        model: See :data:`quincunx.ModelLike`; or programs of one network, without inputs.
        inputs: Images to judge on; see :data:`quincunx.Data`.
        targets: Machines; all targets if ``None``.
        images: How many to make up, where that is asked for.
        shown: Images whose feature maps are drawn, counted from 0.
        calibrate, fold_batch_norm, threads, progress, **options: As for :func:`compare`.
    """
    if isinstance(model, Sequence) and not isinstance(model, (str, bytes)):
        if inputs is not None or targets is not None:
            raise misused("inputs and targets are for a model, not for programs")
        programs = [program._core for program in model if isinstance(program, Program)]
        if len(programs) < len(model):
            raise misused("expected a model, or a list of programs")
        return Page(_core.pages(programs), 900)
    if inputs is None:
        raise misused("a report of a model needs inputs", 'such as "random:1"')
    images_shown = [whole("shown", image, 0) for image in shown]
    model = load(model)
    how = _comparing(
        model,
        inputs,
        targets,
        images=images,
        calibrate=calibrate,
        fold_batch_norm=fold_batch_norm,
        layers=True,
        threads=threads,
        options=options,
    )
    return Page(_core.report(model._core, how, images_shown, progress), 900)


def targets(name: str | None = None) -> Report:
    """All targets; or the machines, parameters, options and files of one."""
    return Report(_core.targets(name))


def isa(target: str, mnemonic: str | None = None, *, format: str = "text") -> str:
    """The manual of instructions of a target, or of one of them.

    Args:
        target: The target.
        mnemonic: The only instruction to tell of.
        format: ``text``, ``md``, ``json``, ``csv`` or ``html``.
    """
    return _core.isa(target, mnemonic, format)


def explain(*codes: str) -> str:
    """What codes of messages mean, such as ``Q0605``: cause and remedy."""
    return _core.explain(list(codes))
