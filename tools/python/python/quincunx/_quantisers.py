"""Fixed-point quantisers of HGQ2 and QKeras on the way through an exporter to ONNX.

As these packages compute them, quantisers are exported as a dozen operators each, with roundings of f32
between. So they are replaced while a network is exported: a quantiser of values by ``x ** m``, where ``m``
holds one number per element that no network has as an exponent. Exporters may move ``m`` to other axes with
``x``. In the file, each such power becomes one node ``Quantise``, with the parameters that ``m`` tells of.
Weights are constants; they stay what their quantisers make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._errors import misused

Array = npt.NDArray[Any]

ROUNDINGS = {"RND": "HALF_CEIL", "RND_CONV": "ROUND", "TRN": "FLOOR", "TRN_ZERO": "DOWN"}
"""Modes of HGQ2, which are those of fixed-point types in C++, and their names in the file. Stochastic
rounding (``S_``) only happens in training."""

OVERFLOWS = ("SAT", "SAT_SYM", "WRAP")
"""Those that both sides have; HGQ2 also has ``WRAP_SM``, which stays as operators."""

FIRST = 1 << 16
"""The first exponent: networks have no powers like that."""

END = 1 << 24
"""Above it, not every whole number is an f32."""


class Fixed(NamedTuple):
    """Fixed-point numbers: arrays of shapes that broadcast to the values'."""

    signed: Array
    """1 with a sign, 0 without."""
    width: Array
    """Bits, sign included; 0 makes every value 0."""
    scale: Array
    """Distance between two numbers."""
    rounding: str
    overflow: str

    def of(self, x: Array) -> Array:
        """The numbers of values, in f64; of quantisers that do not wrap."""
        scaled = x.astype(np.float64) / self.scale
        codes = _ROUND[self.rounding](scaled)
        low = np.where(self.signed > 0, -np.exp2(self.width - 1), 0.0)
        high = np.exp2(self.width - self.signed) - 1
        if self.overflow == "SAT_SYM":
            low = np.maximum(low, -high)
        return np.where(self.width > 0, np.clip(codes, low, high) * self.scale, 0.0)


_ROUND: dict[str, Callable[[Array], Array]] = {
    "HALF_CEIL": lambda x: np.floor(x + 0.5),
    "ROUND": np.rint,
    "HALF_UP": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "FLOOR": np.floor,
    "DOWN": np.trunc,
}


class Marks:
    """The powers of one export, and what they stand for."""

    def __init__(self) -> None:
        # The first number of each, the parameters of each element, what was given, which is known again as exporters
        # may trace a network twice, and what messages call it.
        self._quantisers: list[tuple[int, Fixed, Fixed, str]] = []
        self._next = FIRST

    def mark(self, x: Any, fixed: Fixed, name: str) -> Any:
        """The power of a tensor of TensorFlow that stands for its quantiser."""
        shape = np.broadcast_shapes(fixed.signed.shape, fixed.width.shape, fixed.scale.shape)
        size = int(np.prod(shape, dtype=np.int64))
        start = next((start for start, _, known, _ in self._quantisers if known is fixed), self._next)
        if start == self._next:
            if start + size > END:
                raise misused("the quantisers of the network have more than 16 million elements", "quantise per tensor")
            signed, width, scale = (np.broadcast_to(part, shape).ravel() for part in fixed[:3])
            each = fixed._replace(signed=signed, width=width, scale=scale)
            self._quantisers.append((start, each, fixed, name))
            self._next += size
        numbers = np.arange(start, start + size).reshape(shape)
        tensorflow: Any = import_module("tensorflow")
        return tensorflow.pow(x, tensorflow.constant(numbers, x.dtype))

    def replace(self, proto: Any) -> None:
        """Turns the powers of a model into the quantisers.

        Raises:
            QuincunxError: The exporter lost one.
        """
        onnx: Any = import_module("onnx")
        constants = {tensor.name: tensor for tensor in proto.graph.initializer}
        constants |= {
            node.output[0]: node.attribute[0].t
            for node in proto.graph.node
            if node.op_type == "Constant" and node.attribute[0].name == "value"
        }
        seen = set()
        for node in proto.graph.node:
            if node.op_type != "Pow" or node.input[1] not in constants:
                continue
            numbers = onnx.numpy_helper.to_array(constants[node.input[1]])
            known = [entry for entry in self._quantisers if _among(numbers, entry[0], entry[1].scale.size)]
            if not known:
                continue
            [(first, fixed, *_)] = known
            seen.add(first)
            index = numbers.astype(np.int64) - first
            node.op_type, node.domain = "Quantise", "quincunx"
            operands = {
                "scale": fixed.scale[index],
                "zero": np.float32(0),
                "bits": fixed.width[index],
                "signed": fixed.signed[index],
            }
            del node.input[1:]
            for what, values in operands.items():
                name = f"{node.output[0]}_{what}"
                proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), name))
                node.input.append(name)
            node.attribute.append(onnx.helper.make_attribute("rounding_mode", fixed.rounding))
            node.attribute.append(onnx.helper.make_attribute("overflow_mode", fixed.overflow))
        if seen:
            proto.opset_import.append(onnx.helper.make_opsetid("quincunx", 1))
        lost = [name for start, *_, name in self._quantisers if start not in seen]
        if lost:
            raise misused(
                f"quantisers did not come through the exporter: {', '.join(lost)}",
                "those within loops cannot; recurrent layers have none with unroll=True",
            )


def _among(numbers: Array, first: int, count: int) -> bool:
    """Whether they are some of so many whole numbers from the first on."""
    return numbers.size > 0 and bool(np.isin(numbers, first + np.arange(count)).all())


@contextmanager
def fixed_point(layers: list[Any]) -> Iterator[Marks]:
    """Within it, quantisers of the layers mark what they quantise."""
    marks = Marks()
    with ExitStack() as changes:
        for layer in layers:
            _of_hgq(layer, marks, changes)
        _of_qkeras(layers, marks, changes)
        yield marks


def _of_hgq(layer: Any, marks: Marks, changes: ExitStack) -> None:
    if not type(layer).__module__.startswith("hgq.quantizer") or not hasattr(layer, "kif"):
        return
    keras: Any = import_module("keras")
    rounding = ROUNDINGS.get(layer.round_mode.removeprefix("S_"))
    if rounding is None or layer.overflow_mode not in OVERFLOWS:
        return
    k, i, f = (np.asarray(keras.ops.convert_to_numpy(part), np.float32) for part in layer.kif)
    fixed = Fixed(k, np.maximum(k + i + f, 0), np.exp2(-f), rounding, layer.overflow_mode)
    computed = layer.call

    def call(inputs: Any, training: Any = None) -> Any:
        return marks.mark(inputs, fixed, layer.path) if _varies(inputs) else computed(inputs, training=training)

    layer.call = call
    changes.callback(delattr, layer, "call")


def _varies(x: Any) -> bool:
    """Whether a tensor that is being traced depends on an input of the network, and not on weights alone."""
    if not hasattr(x, "op"):
        return False
    weights = {inner.op.name for _, inner in x.graph.captures}
    seen, left = set(), [x.op]
    while left:
        op = left.pop()
        if op.name in seen or op.name in weights:
            continue
        if op.type == "Placeholder":
            return True
        seen.add(op.name)
        left += [tensor.op for tensor in op.inputs]
    return False


def _of_qkeras(layers: list[Any], marks: Marks, changes: ExitStack) -> None:
    quantisers = [
        part
        for layer in layers
        for part in vars(layer).values()
        if type(part).__module__ == "qkeras.quantizers" and callable(part)
    ]
    for kind in {type(quantiser) for quantiser in quantisers}:
        computed = kind.__call__
        kind.__call__ = _qkeras_call(computed, marks)
        changes.callback(setattr, kind, "__call__", computed)


def _qkeras_call(computed: Callable[..., Any], marks: Marks) -> Callable[..., Any]:
    tensorflow: Any = import_module("tensorflow")
    forms: dict[int, Fixed | None] = {}

    def call(self: Any, x: Any) -> Any:
        is_weight = isinstance(x, tensorflow.Variable)
        if not is_weight and not _varies(x):
            return computed(self, x)
        if is_weight:
            with tensorflow.init_scope():
                return tensorflow.constant(_on_grid(self, computed(self, x.read_value()).numpy()))
        if id(self) not in forms:
            with tensorflow.init_scope():
                forms[id(self)] = _form(self, lambda probe: computed(self, tensorflow.constant(probe)).numpy())
        fixed = forms[id(self)]
        return computed(self, x) if fixed is None else marks.mark(x, fixed, str(self))

    return call


def _step(quantiser: Any) -> float:
    """Distance between two numbers of a linear quantiser of QKeras, before its scale."""
    bits, integer = float(quantiser.bits), float(quantiser.integer)
    keeps_sign = bool(getattr(quantiser, "keep_negative", "relu" not in type(quantiser).__name__))
    return float(2.0 ** (integer + keeps_sign - bits))


def _on_grid(quantiser: Any, weights: Array) -> Array:
    """Weights without the rounding errors of QKeras, which computes ``w + (q(w) - w)`` in f32."""
    if not hasattr(quantiser, "bits") or not hasattr(quantiser, "integer"):
        return weights
    scale = getattr(quantiser, "scale", None)
    step = _step(quantiser) * np.asarray(1.0 if scale is None else scale, np.float64)
    with np.errstate(all="ignore"):
        exact = np.rint(weights / step) * step
    near = np.abs(exact - weights) <= np.abs(step) * 1e-3
    return np.where(near, exact, weights).astype(weights.dtype)


def _form(quantiser: Any, computed: Callable[[Array], Array]) -> Fixed | None:
    """The fixed-point numbers of a quantiser of values, if it makes such of what it is tried with."""
    if not hasattr(quantiser, "bits") or not hasattr(quantiser, "integer"):
        return None
    step, width = _step(quantiser), np.float32(quantiser.bits)
    if not 1 <= width <= 16:
        return None
    # All numbers, the middles between them and what is beyond; not in order, as scales might depend on it.
    codes = np.arange(-(1 << int(width)) - 8, (1 << int(width)) + 9, dtype=np.float32)
    probe = np.concatenate([codes, codes + 0.5, codes + 0.25, codes - 0.25]).astype(np.float32) * np.float32(step)
    found = computed(probe)
    for signed in (1, 0):
        for overflow in ("SAT", "SAT_SYM"):
            for rounding in ("ROUND", "HALF_CEIL", "HALF_UP", "FLOOR", "DOWN"):
                signs, steps = np.array([signed], np.float32), np.array([step], np.float32)
                fixed = Fixed(signs, np.array([width]), steps, rounding, overflow)
                if np.abs(fixed.of(probe) - found).max() <= step * 1e-3:
                    return fixed
    return None
