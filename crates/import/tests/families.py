"""Every operator with random attributes and shapes, for tests/families.rs: families.py FOLDER

Writes NAME.onnx, NAME.in.npz and NAME.out.npz (what onnxruntime computes) for each variant, and cases.txt with
the lines `NAME FAMILY TOLERANCE`. A tolerance is `exact`, `codes` (integers that differ by 1 at most) or a
number: the largest difference over the largest magnitude of the output.

onnxruntime has no kernel for some types; such variants are dropped, and a family must keep 20.
"""
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

VARIANTS = 24
MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"
FAMILIES = {}


def family(*names, tolerance="1e-4"):
    """Registers a function that makes one variant of each name: (random, name, make)."""
    def register(function):
        for name in names:
            FAMILIES[name] = (function, tolerance)
        return function
    return register


class Random:
    """Random attributes and tensors."""

    def __init__(self, *seed):
        self.numbers = np.random.default_rng(seed)

    def int(self, low, high):
        """From low to high, both included."""
        return int(self.numbers.integers(low, high + 1))

    def chance(self, share=0.5):
        return self.numbers.random() < share

    def choose(self, *options):
        return options[self.int(0, len(options) - 1)]

    def some(self, **attributes):
        """Each attribute or not."""
        return {name: value for name, value in attributes.items() if self.chance(0.6)}

    def shape(self, least=1, most=4, extent=5, empty=False):
        shape = [self.int(1, extent) for _ in range(self.int(least, most))]
        if empty and shape and self.chance(0.1):
            shape[self.int(0, len(shape) - 1)] = 0
        return shape

    def real(self, *shape, dtype=np.float32, scale=2.0):
        return (self.numbers.normal(size=shape) * scale).astype(dtype)

    def whole(self, *shape, low=-20, high=20, dtype=np.int32):
        return self.numbers.integers(low, high + 1, shape).astype(dtype)

    def codes(self, *shape, dtype=np.uint8):
        info = np.iinfo(dtype)
        return self.whole(*shape, low=info.min, high=info.max, dtype=dtype)

    def weights(self, *shape, dtype=np.int8):
        """Codes of a second operand, signed ones of 7 bits: where the processor has no VNNI, onnxruntime's
        kernels for unsigned by signed bytes add two products in 16 bits, which saturate."""
        return self.whole(*shape, low=-64, high=64, dtype=dtype) if dtype == np.int8 else self.codes(*shape, dtype=dtype)

    def truth(self, *shape):
        return self.numbers.random(shape) < 0.5

    def tensor(self, *shape, types=(np.float32, np.float32, np.float64, np.int32, np.int64)):
        dtype = np.dtype(self.choose(*types))
        if dtype == bool:
            return self.truth(*shape)
        if dtype.kind == "f":
            return self.real(*shape, dtype=dtype)
        return self.whole(*shape, low=0 if dtype.kind == "u" else -20, dtype=dtype)

    def pair(self, most=4):
        """Two shapes that broadcast."""
        full = self.shape(0, most)
        def part():
            shape = [1 if self.chance(0.25) else extent for extent in full]
            return shape[self.int(0, len(shape)):] if shape and self.chance(0.3) else shape
        return part(), part()

    def axis(self, rank, end=False):
        return self.int(-rank, rank if end else rank - 1)

    def axes(self, rank, least=1):
        """Different axes in any order, some counted from the end."""
        chosen = self.numbers.permutation(rank)[:self.int(least, rank)]
        return [int(axis) - (rank if self.chance(0.3) else 0) for axis in chosen]


class Maker:
    """Collects the nodes of a model. Arrays are constants, or inputs with `fed`."""

    def __init__(self):
        self.inputs, self.constants, self.nodes, self.count = {}, {}, [], 0

    def name(self, value, fed):
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        store, prefix = (self.inputs, "x") if fed else (self.constants, "c")
        name = f"{prefix}{len(store)}"
        store[name] = np.asarray(value)
        return name

    def fed(self, value):
        return self.name(value, True)

    def __call__(self, op, *operands, outputs=1, domain="", **attributes):
        """Adds a node; arrays among the operands are constants."""
        names = [self.name(operand, False) for operand in operands]
        while names and names[-1] == "":
            names.pop()
        results = [f"v{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(op, names, results, domain=domain, **attributes))
        return results[0] if outputs == 1 else results

    def model(self, opset, outputs):
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                 for n, v in self.inputs.items()]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        constants = [numpy_helper.from_array(v, n) for n, v in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", infos, results, constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1),
                  helper.make_opsetid(CLASSIC, 3)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=min(10, 8 if opset < 19 else 10))


def evaluate(model, inputs):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs)))


# ---- single elements

@family("Abs", "Neg", "Sign", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Floor", "Ceil", "Round", "Sigmoid",
        "HardSwish", "Tanh", "Softplus", "Relu", "Identity", "Softsign", "Mish", "Sin", "Cos", "Tan", "Atan")
def unary(random, name, make):
    x = random.real(*random.shape(0, 4, empty=True))
    if name in ("Abs", "Neg", "Sign", "Identity") and random.chance(0.3):
        x = random.tensor(*random.shape(0, 4))
    if name in ("Floor", "Ceil", "Round") and random.chance():
        x = np.round(x * 2) / np.float32(2)
    if name in ("Sqrt", "Log", "Reciprocal"):
        x = np.abs(x) + np.float32(0.05)
    return random.choose(18, 20) if name == "Mish" else random.choose(14, 17), make(name, make.fed(x))


@family("LeakyRelu", "Elu", "Selu", "HardSigmoid", "Celu", "ThresholdedRelu", "Shrink", "Swish")
def activation(random, name, make):
    x = random.real(*random.shape(0, 4, empty=True))
    if name == "Swish":
        alpha = np.float32(random.choose(1.0, 1.702, 0.5))
        return 13, make("QuickGelu", make.fed(x), domain=MICROSOFT, alpha=float(alpha))
    allowed = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "Selu": ["alpha", "gamma"],
               "HardSigmoid": ["alpha", "beta"], "Celu": ["alpha"], "ThresholdedRelu": ["alpha"],
               "Shrink": ["lambd", "bias"]}[name]
    attributes = random.some(**{key: float(random.numbers.uniform(0.1, 1.5)) for key in allowed})
    return random.choose(12, 16) if name != "Celu" else 12, make(name, make.fed(x), **attributes)


@family("Gelu")
def gelu(random, name, make):
    x = random.real(*random.shape(0, 4))
    if random.chance(0.3):
        return 17, make("Gelu", make.fed(x), domain=MICROSOFT)
    if random.chance(0.3):
        return 17, make("FastGelu", make.fed(x), *random.some(b=random.real(x.shape[-1] if x.ndim else 1)).values()
                        if x.ndim else [], domain=MICROSOFT)
    return 20, make("Gelu", make.fed(x), **random.some(approximate=random.choose("tanh", "none")))


@family("PRelu")
def prelu(random, name, make):
    shape = random.shape(1, 4)
    slope = [1 if random.chance(0.3) else e for e in shape][random.int(0, len(shape) - 1):]
    return random.choose(9, 16), make("PRelu", make.fed(random.real(*shape)), random.real(*slope))


@family("Clip")
def clip(random, name, make):
    x = random.tensor(*random.shape(0, 4), types=(np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8))
    low, high = sorted(random.whole(2, low=-3 if x.dtype.kind != "u" else 0, high=5))
    if x.dtype == np.float32 and random.chance(0.3):
        return random.choose(7, 10), make("Clip", make.fed(x), **random.some(min=float(low), max=float(high)))
    low, high = (np.array(v, x.dtype) if random.chance(0.8) else None for v in (low, high))
    if random.chance(0.3) and low is not None:
        low = make.fed(low)
    return 13, make("Clip", make.fed(x), low, high)


@family("Add", "Sub", "Mul", "Div", "Max", "Min")
def binary(random, name, make):
    a, b = random.pair()
    types = (np.float32, np.float32, np.float64, np.int32, np.int64)
    if name in ("Max", "Min"):
        types += (np.uint32, np.uint64)
    a = random.tensor(*a, types=types)
    b = random.tensor(*b, types=(a.dtype,))
    if name == "Div":
        b = np.where(b == 0, b.dtype.type(1), b)
    second = make.fed(b) if random.chance(0.7) else b
    return random.choose(8 if name in ("Max", "Min") and a.dtype == np.float32 else 13, 14), make(name, make.fed(a), second)


@family("Mod")
def mod(random, name, make):
    a, b = random.pair()
    a = random.tensor(*a, types=(np.int32, np.int64, np.int8, np.uint8, np.int16))
    b = random.tensor(*b, types=(a.dtype,))
    b = np.where(b == 0, b.dtype.type(3), b)
    return 13, make("Mod", make.fed(a), make.fed(b), **random.some(fmod=random.int(0, 1)))


@family("Pow")
def power(random, name, make):
    a, b = random.pair(3)
    if random.chance(0.3):
        return 13, make("Pow", make.fed(random.whole(*a, dtype=random.choose(np.int32, np.int64))),
                        random.whole(*b, low=0, high=4, dtype=random.choose(np.int32, np.int64)))
    exponent = random.choose(random.real(*b), random.whole(*b, low=0, high=3), np.float32(2), np.float32(0.5))
    return random.choose(12, 15), make("Pow", make.fed(np.abs(random.real(*a)) + np.float32(0.1)), exponent)


@family("Sum", "Mean")
def chain(random, name, make):
    shape = random.shape(0, 3)
    part = lambda: [1 if random.chance(0.2) else e for e in shape]
    return 13, make(name, *[make.fed(random.real(*part())) for _ in range(random.int(1, 4))])


@family("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def compare(random, name, make):
    a, b = random.pair()
    a = random.tensor(*a)
    a = np.round(a).astype(a.dtype)
    b = np.round(random.tensor(*b, types=(a.dtype,))).astype(a.dtype)
    return random.choose(13, 16), make(name, make.fed(a), make.fed(b))


@family("And", "Or", "Xor", "Not", "IsNaN", "IsInf")
def logic(random, name, make):
    a, b = random.pair()
    if name == "Not":
        return 13, make("Not", make.fed(random.truth(*a)))
    if name in ("IsNaN", "IsInf"):
        x = random.real(*a)
        x = np.where(random.truth(*a), x, random.numbers.choice([np.nan, np.inf, -np.inf], a)).astype(np.float32)
        flags = random.some(detect_negative=random.int(0, 1), detect_positive=random.int(0, 1))
        return 13, make(name, make.fed(x), **(flags if name == "IsInf" else {}))
    return 13, make(name, make.fed(random.truth(*a)), make.fed(random.truth(*b)))


@family("Where")
def where(random, name, make):
    condition, (a, b) = random.shape(0, 2), random.pair()
    full = np.broadcast_shapes(a, b)
    condition = [1 if random.chance(0.3) else e for e in full][random.int(0, len(full)):]
    a = random.tensor(*a)
    return 16, make("Where", make.fed(random.truth(*condition)), make.fed(a), make.fed(random.tensor(*b, types=(a.dtype,))))


# ---- windows

def window(random, rank, kernel, strides=True):
    attributes = random.some(strides=[random.int(1, 3) for _ in range(rank)],
                             dilations=[random.int(1, 2) for _ in range(rank)])
    if not strides:
        attributes.pop("strides", None)
    if random.chance(0.25):
        attributes["auto_pad"] = random.choose("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    elif random.chance(0.7):
        attributes["pads"] = [random.int(0, k - 1) for k in kernel * 2]
    return attributes


@family("Conv1d", "Conv2d", "Conv3d", "FusedConv")
def conv(random, name, make):
    rank = {"Conv1d": 1, "Conv2d": 2, "Conv3d": 3, "FusedConv": 2}[name]
    groups, kernel = random.choose(1, 1, 2, 3), [random.int(1, 3) for _ in range(rank)]
    depth, filters = random.int(1, 3), groups * random.int(1, 3)
    x = random.real(random.int(1, 2), groups * depth, *[random.int(5, 8) for _ in range(rank)])
    attributes = window(random, rank, kernel) | random.some(kernel_shape=kernel) | {"group": groups}
    operands = [make.fed(x), random.real(filters, depth, *kernel)]
    bias = random.real(filters) if random.chance() else None
    if name != "FusedConv":
        return random.choose(7, 11), make("Conv", *operands, bias, **attributes)
    function, parameters = random.choose(("Relu", []), ("LeakyRelu", [0.2]), ("Tanh", []), ("Sigmoid", []),
                                         ("Clip", [-1.0, 2.0]), ("HardSigmoid", [0.3, 0.4]))
    attributes |= {"activation": function} | ({"activation_params": parameters} if parameters else {})
    return 13, make("FusedConv", *operands, bias, domain=MICROSOFT, **attributes)


@family("ConvTranspose")
def conv_transpose(random, name, make):
    rank = random.int(1, 2)
    groups, kernel = random.choose(1, 1, 2), [random.int(1, 3) for _ in range(rank)]
    depth, filters = random.int(1, 3), random.int(1, 2)
    x = random.real(random.int(1, 2), groups * depth, *[random.int(3, 5) for _ in range(rank)])
    strides = [random.int(1, 3) for _ in range(rank)]
    attributes = {"strides": strides, "group": groups} | random.some(dilations=[random.int(1, 2) for _ in range(rank)])
    if random.chance(0.6):
        attributes["pads"] = [random.int(0, k - 1) for k in kernel * 2]
    if random.chance(0.4):
        attributes["output_padding"] = [random.int(0, s - 1) for s in strides]
    elif random.chance(0.3):
        attributes.pop("pads", None)
        attributes["auto_pad"] = random.choose("SAME_UPPER", "SAME_LOWER", "VALID")
        # Where a stride is larger than the kernel, onnxruntime's results are smaller than the standard's.
        attributes["strides"] = [min(s, k) for s, k in zip(strides, kernel)]
    elif random.chance(0.4):
        attributes.pop("pads", None)
        dilations = attributes.get("dilations", [1] * rank)
        full = [s * (extent - 1) + d * (k - 1) + 1
                for s, extent, d, k in zip(strides, x.shape[2:], dilations, kernel)]
        # onnxruntime takes no extent that a smaller input could have given.
        attributes["output_shape"] = [f - random.int(0, s - 1) for f, s in zip(full, strides)]
        if random.chance(0.3):
            attributes["auto_pad"] = random.choose("SAME_UPPER", "SAME_LOWER")
    operands = [make.fed(x), random.real(groups * depth, filters, *kernel)]
    return 11, make("ConvTranspose", *operands, random.real(groups * filters) if random.chance() else None, **attributes)


@family("MaxPool", "AveragePool", "MaxPool8")
def pool(random, name, make):
    rank = random.int(1, 3)
    kernel = [random.int(1, 3) for _ in range(rank)]
    shape = [random.int(1, 2), random.int(1, 3), *[random.int(5, 9) for _ in range(rank)]]
    attributes = window(random, rank, kernel) | {"kernel_shape": kernel}
    opset = 12
    if name == "AveragePool":
        opset = random.choose(11, 19)
        attributes |= random.some(count_include_pad=random.int(0, 1))
        if opset < 19:
            attributes.pop("dilations", None)
    if random.chance(0.4) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if name == "MaxPool8":
        x = random.codes(*shape, dtype=random.choose(np.int8, np.uint8))
        return opset, make("MaxPool", make.fed(x), **attributes)
    return opset, make(name, make.fed(random.real(*shape)), **attributes)


@family("GlobalAveragePool", "GlobalMaxPool")
def global_pool(random, name, make):
    return 13, make(name, make.fed(random.real(*random.shape(3, 5))))


@family("ResizeNearest", "ResizeLinear", "ResizeCubic", "Upsample")
def resize(random, name, make):
    shape = [random.int(1, 2), random.int(1, 2), random.int(2, 6), random.int(2, 6)]
    x = make.fed(random.real(*shape))
    if name == "Upsample":
        mode = random.choose("nearest", "linear")
        scales = np.array([1, 1, random.choose(1, 2, 3, 1.5), random.choose(1, 2, 4, 2.5)], np.float32)
        return 9, make("Upsample", x, scales, mode=mode)
    mode = name.removeprefix("Resize").lower()
    coordinates = random.choose("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                "half_pixel_symmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn")
    if mode == "cubic" and coordinates == "tf_crop_and_resize" or mode != "nearest" and coordinates == "tf_half_pixel_for_nn":
        coordinates = "half_pixel"
    opset = {"half_pixel_symmetric": 19, "tf_half_pixel_for_nn": 11}.get(coordinates, random.choose(11, 13, 18, 19))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes |= random.some(nearest_mode=random.choose("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        attributes |= random.some(cubic_coeff_a=random.choose(-0.5, -0.75), exclude_outside=random.int(0, 1))
    roi = np.zeros(0, np.float32)
    if coordinates == "tf_crop_and_resize":
        roi = np.array([0, 0, 0.125, 0.25, 1, 1, 0.75, random.choose(0.875, 1.25)], np.float32)
        attributes |= random.some(extrapolation_value=1.5)
    # onnxruntime copies where extents stay, whatever scale or region says.
    if random.chance():
        other = lambda extent: random.choose(*[size for size in range(1, 13) if size != extent])
        sizes = np.array([*shape[:2], other(shape[2]), other(shape[3])], np.int64)
        return opset, make("Resize", x, roi, np.zeros(0, np.float32) if opset < 13 else None, sizes, **attributes)
    moving = lambda extent: random.choose(*[s for s in [0.5, 0.75, 1.25, 1.5, 2, 3] if int(extent * s) not in (0, extent)])
    scales = np.array([1, 1, moving(shape[2]), moving(shape[3])], np.float32)
    return opset, make("Resize", x, roi, scales, **attributes)


# ---- products

@family("Gemm")
def gemm(random, name, make):
    m, k, n = (random.int(1, 6) for _ in range(3))
    flags = random.some(transA=random.int(0, 1), transB=random.int(0, 1), alpha=0.7, beta=1.3)
    a = random.real(*((k, m) if flags.get("transA") else (m, k)))
    b = random.real(*((n, k) if flags.get("transB") else (k, n)))
    c = random.choose(None, random.real(m, n), random.real(n), random.real(1, n), random.real(m, 1), random.real())
    return random.choose(11, 13), make("Gemm", make.fed(a), make.fed(b) if random.chance() else b, c, **flags)


def product_shapes(random):
    outer_a, outer_b = random.pair(2)
    m, k, n = (random.int(1, 5) for _ in range(3))
    a = [k] if random.chance(0.15) else [*outer_a, m, k]
    b = [k] if random.chance(0.15) else [*outer_b, k, n]
    return a, b


@family("MatMul")
def matmul(random, name, make):
    a, b = product_shapes(random)
    a = random.tensor(*a)
    return 13, make("MatMul", make.fed(a), make.fed(random.tensor(*b, types=(a.dtype,))))


@family("FusedMatMul")
def fused_matmul(random, name, make):
    outer = random.shape(0, 2)
    m, k, n = (random.int(1, 5) for _ in range(3))
    flags = random.some(transA=random.int(0, 1), transB=random.int(0, 1), alpha=0.6)
    a = random.real(*outer, *((k, m) if flags.get("transA") else (m, k)))
    b = random.real(*outer, *((n, k) if flags.get("transB") else (k, n)))
    return 13, make("FusedMatMul", make.fed(a), make.fed(b), domain=MICROSOFT, **flags)


# ---- reductions and normalisations

REDUCTIONS = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]


@family(*REDUCTIONS)
def reduction(random, name, make):
    shape = random.shape(0, 4)
    x = random.tensor(*shape) if name != "ReduceProd" else random.real(*shape)
    if name.startswith("ReduceLog"):
        x = np.abs(random.real(*shape)) + np.float32(0.1)
    axes = random.axes(len(shape)) if shape and random.chance(0.8) else None
    opset = random.choose(11, 13, 18)
    attributes = random.some(keepdims=random.int(0, 1))
    if opset >= (13 if name == "ReduceSum" else 18):
        attributes |= random.some(noop_with_empty_axes=random.int(0, 1))
        return opset, make(name, make.fed(x), None if axes is None else np.array(axes, np.int64), **attributes)
    return opset, make(name, make.fed(x), **attributes, **({} if axes is None else {"axes": axes}))


@family("ArgMax", "ArgMin")
def arg(random, name, make):
    shape = random.shape(1, 4)
    x = random.choose(random.real(*shape), random.whole(*shape, low=0, high=2))
    attributes = random.some(axis=random.axis(len(shape)), keepdims=random.int(0, 1), select_last_index=random.int(0, 1))
    return random.choose(12, 13), make(name, make.fed(x), **attributes)


@family("Softmax", "LogSoftmax", "Hardmax")
def softmax(random, name, make):
    shape = random.shape(2, 4, empty=name != "Hardmax")
    return random.choose(11, 13), make(name, make.fed(random.real(*shape)), **random.some(axis=random.axis(len(shape))))


@family("CumSum")
def cumulative(random, name, make):
    shape = random.shape(1, 3)
    x = random.tensor(*shape)
    if x.dtype.kind == "f" and x.size and random.chance(0.2):
        x.flat[random.int(0, x.size - 1)] = np.inf  # It must not reach the sums before it.
    return 14, make("CumSum", make.fed(x), np.array(random.axis(len(shape)), np.int64),
                    **random.some(exclusive=random.int(0, 1), reverse=random.int(0, 1)))


@family("BatchNormalization", "InstanceNormalization", "LRN", "GroupNormalization")
def channel_norm(random, name, make):
    channels = random.int(1, 6)
    shape = [random.int(1, 2), channels, *random.shape(0 if name == "BatchNormalization" else 1, 2)]
    epsilon = random.some(epsilon=random.choose(1e-3, 1e-2))
    x = make.fed(random.real(*shape))
    scale, bias = random.real(channels), random.real(channels)
    if name == "LRN":
        return 13, make(name, x, size=random.choose(1, 3, 5),
                        **random.some(alpha=0.02, beta=0.6, bias=1.5))
    if name == "InstanceNormalization":
        return 13, make(name, x, scale, bias, **epsilon)
    if name == "GroupNormalization":
        groups = random.choose(*[g for g in range(1, channels + 1) if channels % g == 0])
        if random.chance():
            return 18, make(name, x, random.real(groups), random.real(groups), num_groups=groups, **epsilon)
        return 21, make(name, x, scale, bias, num_groups=groups, **epsilon)
    return random.choose(9, 15), make(name, x, scale, bias, random.real(channels), np.abs(random.real(channels)), **epsilon)


@family("LayerNormalization", "RMSNormalization", "LpNormalization", "MeanVarianceNormalization")
def last_norm(random, name, make):
    shape = random.shape(2, 4, extent=6)
    x, axis = make.fed(random.real(*shape)), random.axis(len(shape))
    if name == "LpNormalization":
        return 13, make(name, x, **random.some(axis=axis, p=random.int(1, 2)))
    if name == "MeanVarianceNormalization":
        axes = random.axes(len(shape)) if len(shape) != 4 or random.chance() else None
        return 13, make(name, x, **({} if axes is None else {"axes": sorted(a % len(shape) for a in axes)}))
    tail = shape[axis:] if axis < 0 else shape[axis - len(shape):]
    scale = random.real(*tail)
    attributes = {"axis": axis} | random.some(epsilon=random.choose(1e-3, 1e-2))
    if name == "LayerNormalization":
        return 17, make(name, x, scale, random.real(*tail) if random.chance() else None, **attributes)
    if random.chance(0.4):
        return 17, make("SimplifiedLayerNormalization", x, random.real(shape[-1]), **(attributes | {"axis": -1}))
    return 23, make(name, x, scale, **attributes)


# ---- movement

ANY = (np.float32, np.float32, np.int64, np.int32, np.uint8, bool)


@family("Concat")
def concat(random, name, make):
    shape = random.shape(1, 4)
    axis = random.axis(len(shape))
    parts = []
    first = random.tensor(*shape)
    for _ in range(random.int(1, 4)):
        shape[axis] = random.int(0 if random.chance(0.1) else 1, 4)
        parts.append(make.fed(random.tensor(*shape, types=(first.dtype,))))
    return 13, make("Concat", *parts, axis=axis)


@family("Split")
def split(random, name, make):
    shape = random.shape(1, 4)
    axis, parts = random.axis(len(shape)), random.int(1, 4)
    lengths = [random.int(1, 3) for _ in range(parts)]
    shape[axis] = sum(lengths)
    x = make.fed(random.tensor(*shape))
    if random.chance(0.4):
        lengths = None
        shape[axis] = parts * random.int(1, 3)
        make.inputs[x] = random.real(*shape)
    outputs = max(parts, 1)
    if random.chance(0.3):
        given = {} if lengths is None else {"split": lengths}
        results = make("Split", x, outputs=outputs, axis=axis, **given)
        return 11, results
    if lengths is None and random.chance():
        return 18, make("Split", x, outputs=outputs, axis=axis, num_outputs=outputs)
    return 13, make("Split", x, None if lengths is None else np.array(lengths, np.int64), outputs=outputs, axis=axis)


@family("Slice")
def slice_(random, name, make):
    shape = random.shape(1, 4, extent=7)
    axes = random.axes(len(shape))
    bound = lambda: random.choose(random.int(-9, 9), random.int(-9, 9), 2**40, -2**40)
    starts, ends = [bound() for _ in axes], [bound() for _ in axes]
    x = make.fed(random.tensor(*shape, types=ANY))
    if random.chance(0.2):
        return 9, make("Slice", x, starts=starts, ends=ends, axes=[a % len(shape) for a in axes])
    steps = [random.choose(1, 1, 2, 3, -1, -2) for _ in axes]
    kind = random.choose(np.int64, np.int32)
    # onnxruntime gives the largest number of the type a meaning of its own.
    arrays = [np.clip(np.array(v), -2**30, 2**30).astype(kind) for v in (starts, ends, axes, steps)]
    return 13, make("Slice", x, *arrays)


@family("Pad")
def pad(random, name, make):
    shape = random.shape(1, 4, extent=5)
    mode = random.choose("constant", "edge", "reflect", "wrap")
    most = [e - 1 if mode == "reflect" else 3 for e in shape]
    pads = [random.int(0, m) for m in most * 2]
    if mode == "constant" and random.chance(0.3):
        pads[0] = -random.int(0, shape[0] - 1)
    x = random.tensor(*shape, types=(np.float32, np.float32, np.int64, np.int32))
    if mode != "wrap" and x.dtype == np.float32 and random.chance(0.2):
        return 10, make("Pad", make.fed(x), mode=mode, pads=pads, **random.some(value=1.5))
    value = np.array(3, x.dtype) if mode == "constant" and random.chance() else None
    return 19 if mode == "wrap" else random.choose(11, 13, 18), make("Pad", make.fed(x), np.array(pads, np.int64), value, mode=mode)


@family("Transpose")
def transpose(random, name, make):
    shape = random.shape(0, 5, empty=True)
    perm = random.some(perm=[int(a) for a in random.numbers.permutation(len(shape))]) if shape else {}
    return 13, make("Transpose", make.fed(random.tensor(*shape, types=ANY)), **perm)


@family("Reshape")
def reshape(random, name, make):
    shape = random.shape(1, 4)
    count = int(np.prod(shape))
    target = []
    while count > 1 and random.chance(0.7):
        factor = random.choose(*[f for f in range(1, count + 1) if count % f == 0])
        target.append(factor)
        count //= factor
    target.append(count)
    if random.chance():
        target[random.int(0, len(target) - 1)] = -1
    for axis in range(min(len(target), len(shape))):
        if target[axis] == shape[axis] and random.chance():
            target[axis] = 0
    return random.choose(5, 14), make("Reshape", make.fed(random.tensor(*shape)), np.array(target, np.int64))


@family("Flatten")
def flatten(random, name, make):
    shape = random.shape(0, 4, empty=True)
    axis = random.some(axis=random.axis(len(shape), end=True)) if shape else {"axis": 0}
    return 13, make("Flatten", make.fed(random.tensor(*shape)), **axis)


@family("Squeeze", "Unsqueeze")
def squeeze(random, name, make):
    shape = random.shape(1, 4)
    ones = [axis for axis in range(len(shape)) if random.chance()]
    if name == "Squeeze":
        for axis in ones:
            shape[axis] = 1
        axes = [a - (len(shape) if random.chance(0.3) else 0) for a in ones]
    else:
        count = random.int(1, 2)
        axes = random.axes(len(shape) + count)[:count]
        axes = list({a % (len(shape) + len(axes)): a for a in axes}.values())
        axes = [a for a in axes if -len(shape) - len(axes) <= a < len(shape) + len(axes)] or [0]
    x = make.fed(random.tensor(*shape))
    opset = random.choose(11, 13)
    given = axes if axes and not (name == "Squeeze" and random.chance(0.2)) else None
    if name == "Unsqueeze" and len({a % (len(shape) + len(given)) for a in given}) < len(given):
        given = [0]
    if opset == 11:
        return 11, make(name, x, **({} if given is None else {"axes": given}))
    return 13, make(name, x, None if given is None else np.array(given, np.int64))


@family("Gather", "GatherElements", "GatherND")
def gather(random, name, make):
    shape = random.shape(1, 4)
    axis = random.axis(len(shape))
    x = make.fed(random.tensor(*shape))
    index = lambda extent, *at: random.whole(*at, low=-extent, high=extent - 1, dtype=random.choose(np.int64, np.int32))
    feed = lambda value: make.fed(value) if random.chance() else value
    if name == "Gather":
        return 13, make(name, x, feed(index(shape[axis], *random.shape(0, 2))), **({"axis": axis} if random.chance(0.8) or axis else {}))
    if name == "GatherElements":
        at = [random.int(1, e) for e in shape]
        at[axis] = random.int(1, 4)
        return 13, make(name, x, feed(index(shape[axis], *at)), axis=axis)
    batch = random.int(0, len(shape) - 1) if random.chance(0.4) else 0
    depth = random.int(1, len(shape) - batch)
    at = [*shape[:batch], *random.shape(1, 2)]
    if batch == 0 and random.chance(0.3):
        at = []
    parts = [index(e, *at) for e in shape[batch:batch + depth]]
    return 13, make(name, x, feed(np.stack(parts, -1).astype(np.int64)), **({"batch_dims": batch} if batch else {}))


@family("Expand", "Tile")
def repeat(random, name, make):
    shape = [random.choose(1, 2, 3) for _ in range(random.int(0 if name == "Expand" else 1, 4))]
    x = make.fed(random.tensor(*shape))
    if name == "Tile":
        return 13, make(name, x, random.whole(len(shape), low=0 if random.chance(0.1) else 1, high=3, dtype=np.int64))
    target = [e if e > 1 and random.chance() else (1 if e > 1 else random.int(1, 4)) for e in shape]
    target = [random.int(1, 3) for _ in range(random.int(0, 2))] + target
    return 13, make(name, x, np.array(target, np.int64))


@family("DepthToSpace", "SpaceToDepth")
def blocks(random, name, make):
    block, extents = random.int(1, 3), [random.int(1, 3) for _ in range(4)]
    n, c, h, w = extents
    if name == "DepthToSpace":
        return 13, make(name, make.fed(random.real(n, c * block**2, h, w)), blocksize=block,
                        **random.some(mode=random.choose("DCR", "CRD")))
    return 13, make(name, make.fed(random.real(n, c, h * block, w * block)), blocksize=block)


@family("Shapes")
def shapes(random, name, make):
    """Shape arithmetic as exporters write it: the last extents joined, or one picked by Gather."""
    shape = random.shape(2, 4)
    x = make.fed(random.real(*shape))
    extents = make("Shape", x)
    size = make("Size", x)
    first = make("Gather", extents, np.array(random.axis(len(shape)), np.int64), axis=0)
    first = make("Unsqueeze", first, np.array([0], np.int64))
    target = make("Concat", first, np.array([-1], np.int64), axis=0)
    joined = make("Reshape", x, target)
    count = make("Cast", size, to=TensorProto.FLOAT)
    zeros = make("ConstantOfShape", extents, value=numpy_helper.from_array(np.array([random.int(-2, 2)], np.float32)))
    tail = make("Slice", extents, np.array([random.int(0, 1)], np.int64), np.array([9], np.int64))
    steps = make("Range", np.array(0, np.int64), make("Squeeze", first), np.array(random.choose(1, 2), np.int64))
    return 13, [joined, make("Div", x, count), make("Add", zeros, x), tail, steps]


@family("Cast")
def cast(random, name, make):
    x = random.tensor(*random.shape(0, 3), types=(np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, bool))
    targets = ["FLOAT", "DOUBLE", "INT32", "INT64", "BOOL"] + (["UINT8", "INT8"] if x.dtype.kind not in "f" else [])
    return 13, make("Cast", make.fed(x), to=getattr(TensorProto, random.choose(*targets)))


@family("OneHot", "Trilu")
def masks(random, name, make):
    if name == "OneHot":
        depth, shape = random.int(1, 5), random.shape(0, 3, extent=3)
        indices = random.whole(*shape, low=-depth - 1, high=depth, dtype=random.choose(np.int64, np.int64, np.float32))
        values = random.real(2) if random.chance(0.7) else random.whole(2, dtype=np.int64)
        return 13, make(name, make.fed(indices), np.array(depth if random.chance() else [depth], np.int64), values,
                        **random.some(axis=random.axis(len(shape) + 1)))
    x = random.tensor(*random.shape(2, 4), types=(np.float32, np.float64, np.int64))
    k = np.array(random.int(-3, 3), np.int64) if random.chance(0.7) else None
    return 14, make(name, make.fed(x), k, **random.some(upper=random.int(0, 1)))


@family("If")
def branches(random, name, make):
    """Branches that read values from outside; conditions that are known and computed."""
    shape = random.shape(1, 3)
    x = make.fed(random.real(*shape))
    if random.chance():
        condition = make("Greater", make("ReduceMean", x, keepdims=random.int(0, 1) if len(shape) == 1 else 0), np.float32(0))
    else:
        extent = make("Gather", make("Shape", x), np.array(0, np.int64))
        condition = make("Equal", extent, np.array(random.int(1, 3), np.int64))
    def branch(label, *ops):
        nodes, last = [], x
        for op in ops:
            nodes.append(helper.make_node(op, [last] if op != "Mul" else [last, x], [f"inner{len(nodes)}"]))
            last = nodes[-1].output[0]
        result = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        return helper.make_graph(nodes, label, [], [result])
    chosen = lambda: [random.choose("Relu", "Neg", "Tanh", "Mul") for _ in range(random.int(1, 3))]
    result = make("If", condition, then_branch=branch("yes", *chosen()), else_branch=branch("no", *chosen()))
    return 13, make("Add", result, x)


# ---- recurrent layers

@family("LSTM", "GRU", "RNN")
def recurrent(random, name, make):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, features, hidden = random.int(1, 4), random.int(1, 3), random.int(1, 4), random.int(1, 4)
    direction = random.choose("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    operands = [make.fed(random.real(steps, batch, features)), random.real(d, gates * hidden, features, scale=0.7),
                random.real(d, gates * hidden, hidden, scale=0.7)]
    operands.append(random.real(d, 2 * gates * hidden) if random.chance() else None)
    operands.append(np.full(batch, steps, np.int32) if random.chance(0.3) else None)
    operands.append(make.fed(random.real(d, batch, hidden)) if random.chance() else None)
    if name == "LSTM":
        operands.append(random.real(d, batch, hidden) if random.chance() else None)
        operands.append(random.real(d, 3 * hidden) if random.chance(0.3) else None)
    attributes = {"hidden_size": hidden, "direction": direction}
    if name == "GRU":
        attributes |= random.some(linear_before_reset=random.int(0, 1))
    return 14, make(name, *operands, outputs=3 if name == "LSTM" else 2, **attributes)


# ---- quantisation

def grid(random, dtype=None, symmetric=False):
    """Scale and zero point."""
    dtype = dtype or random.choose(np.uint8, np.int8)
    info = np.iinfo(dtype)
    zero = 0 if symmetric else random.int(info.min // 2 if info.min else 90, info.max // 2 if info.min else 160)
    return np.float32(random.numbers.uniform(0.02, 0.1)), np.array(zero, dtype)


@family("QuantizeLinear", tolerance="codes")
def quantise(random, name, make):
    shape = random.shape(2, 4)
    x = make.fed(random.real(*shape, scale=6))
    scale, zero = grid(random)
    if random.chance(0.4):
        axis = random.axis(len(shape))
        scale = random.numbers.uniform(0.02, 0.1, shape[axis]).astype(np.float32)
        return 13, make(name, x, scale, np.full(shape[axis], zero), axis=axis)
    return random.choose(10, 13, 19), make(name, x, scale, zero if random.chance(0.8) else None)


@family("DequantizeLinear")
def dequantise(random, name, make):
    shape = random.shape(2, 4)
    scale, zero = grid(random)
    x = random.codes(*shape, dtype=zero.dtype)
    if random.chance(0.4):
        axis = random.axis(len(shape))
        scale = random.numbers.uniform(0.02, 0.1, shape[axis]).astype(np.float32)
        return 13, make(name, make.fed(x), scale, np.full(shape[axis], zero), axis=axis)
    if random.chance(0.2):
        return 13, make(name, make.fed(random.whole(*shape)), scale)
    return random.choose(10, 13, 19), make(name, make.fed(x), scale, zero)


@family("DynamicQuantizeLinear", tolerance="codes")
def dynamic(random, name, make):
    x = random.real(*random.shape(1, 3)) + np.float32(random.choose(0, 3, -3))
    if random.chance(0.1):
        x = np.zeros_like(x)
    return 13, make(name, make.fed(x), outputs=3)


@family("ConvInteger", "MatMulInteger", tolerance="exact")
def integer(random, name, make):
    if name == "ConvInteger":
        groups, kernel = random.choose(1, 2), [random.int(1, 3) for _ in range(2)]
        depth, filters = random.int(1, 3), groups * random.int(1, 3)
        x = random.codes(random.int(1, 2), groups * depth, random.int(4, 7), random.int(4, 7))
        w = random.codes(filters, depth, *kernel)
        zeros = [np.uint8(random.int(0, 255)), np.uint8(random.int(0, 255))]
        operands = [make.fed(x), w, *random.choose([], zeros[:1], zeros)]
        return 10, make(name, *operands, **window(random, 2, kernel), group=groups)
    a, b = product_shapes(random)
    a, b = (s if len(s) > 1 else [1, *s] if s is a else [*s, 1] for s in (a, b))
    b_type = random.choose(np.uint8, np.int8)
    zeros = [random.codes(dtype=np.uint8), random.weights(dtype=b_type)]
    return 10, make(name, make.fed(random.codes(*a)), random.weights(*b, dtype=b_type), *random.choose([], zeros[:1], zeros))


@family("QLinearConv", tolerance="codes")
def qlinear_conv(random, name, make):
    groups, kernel = random.choose(1, 1, 2), [random.int(1, 3) for _ in range(2)]
    depth, filters = random.int(1, 3), groups * random.int(1, 3)
    (x_scale, x_zero), (y_scale, y_zero) = grid(random), grid(random)
    y_zero = y_zero.astype(x_zero.dtype) if y_zero.dtype == x_zero.dtype else np.array(7, x_zero.dtype)
    w_scale = random.numbers.uniform(0.01, 0.05, filters if random.chance() else ()).astype(np.float32)
    w_zero = np.zeros(w_scale.shape, np.int8)
    x = random.codes(random.int(1, 2), groups * depth, random.int(4, 7), random.int(4, 7), dtype=x_zero.dtype)
    w = random.weights(filters, depth, *kernel)
    bias = random.whole(filters, low=-900, high=900) if random.chance() else None
    return 10, make(name, make.fed(x), x_scale, x_zero, w, w_scale, w_zero, y_scale * np.float32(4), y_zero, bias,
                    **window(random, 2, kernel), group=groups)


@family("QLinearMatMul", tolerance="codes")
def qlinear_matmul(random, name, make):
    m, k, n = (random.int(1, 5) for _ in range(3))
    outer = random.shape(0, 1)
    (a_scale, a_zero), (b_scale, b_zero) = grid(random, np.uint8), grid(random)
    y_scale, y_zero = grid(random, np.uint8)
    return 10, make(name, make.fed(random.codes(*outer, m, k)), a_scale, a_zero,
                    random.weights(k, n, dtype=b_zero.dtype), b_scale, b_zero, y_scale * np.float32(8), y_zero)


@family("QGemm", tolerance="codes")
def qgemm(random, name, make):
    m, k, n = (random.int(1, 5) for _ in range(3))
    flags = {"transA": 0, "transB": random.int(0, 1), "alpha": random.choose(1.0, 0.5)}
    (a_scale, a_zero), (y_scale, y_zero) = grid(random, np.uint8), grid(random, np.uint8)
    b_scale = random.numbers.uniform(0.02, 0.1, n if random.chance(0.4) else ()).astype(np.float32)
    b = random.weights(*((n, k) if flags["transB"] else (k, n)))
    c = random.whole(n, low=-500, high=500) if random.chance() else None
    tail = [y_scale * np.float32(8), y_zero] if random.chance(0.8) else []
    return 13, make(name, make.fed(random.codes(m, k)), a_scale, a_zero, b, b_scale, np.zeros(b_scale.shape, np.int8), c,
                    *tail, domain=MICROSOFT, **flags)


@family("QLinearAdd", "QLinearMul", tolerance="codes")
def qlinear_binary(random, name, make):
    a, b = random.pair(3)
    dtype = random.choose(np.uint8, np.int8)
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (grid(random, dtype) for _ in range(3))
    factor = np.float32(2 if name == "QLinearAdd" else 8)
    a, b = make.fed(random.codes(*a, dtype=dtype)), random.codes(*b, dtype=dtype)
    return 13, make(name, a, a_scale, a_zero, make.fed(b) if random.chance() else b, b_scale, b_zero,
                    y_scale * factor, y_zero, domain=MICROSOFT)


@family("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", tolerance="codes")
def qlinear_unary(random, name, make):
    dtype = random.choose(np.uint8, np.int8)
    (x_scale, x_zero), (y_scale, y_zero) = grid(random, dtype), grid(random, dtype)
    shape = random.shape(2, 3)
    if name == "QLinearSoftmax":
        # The code of a result near 1 would not fit 8 bits; onnxruntime's wraps.
        x = make.fed(random.codes(*shape, random.int(2, 5), dtype=dtype))
        return 13, make(name, x, np.float32(0.01), x_zero, np.float32(1 / 256), np.array(np.iinfo(dtype).min, dtype),
                        domain=MICROSOFT, axis=-1, opset=13)
    x = make.fed(random.codes(*shape, dtype=dtype))
    if name == "QLinearSigmoid":
        return 13, make(name, x, x_scale, x_zero, np.float32(1 / 256), np.array(np.iinfo(dtype).min, dtype), domain=MICROSOFT)
    return 13, make(name, x, x_scale, x_zero, y_scale, y_zero, domain=MICROSOFT, **random.some(alpha=0.2))


@family("QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearConcat", tolerance="codes")
def qlinear_more(random, name, make):
    (x_scale, x_zero), (y_scale, y_zero) = grid(random, np.uint8), grid(random, np.uint8)
    shape = [random.int(1, 2), random.int(1, 3), random.int(4, 7), random.int(4, 7)]
    x = make.fed(random.codes(*shape))
    if name == "QLinearGlobalAveragePool":
        return 13, make(name, x, x_scale, x_zero, y_scale, y_zero, domain=MICROSOFT, channels_last=0)
    if name == "QLinearAveragePool":
        kernel = [random.int(1, 3), random.int(1, 3)]
        attributes = window(random, 2, kernel)
        attributes.pop("dilations", None)
        if "auto_pad" in attributes:
            # Where a stride is larger than the kernel, onnxruntime's windows do not begin at the edge.
            attributes["strides"] = [random.int(1, k) for k in kernel]
        return 13, make(name, x, x_scale, x_zero, y_scale, y_zero, domain=MICROSOFT, kernel_shape=kernel, **attributes)
    parts = [x, x_scale, x_zero]
    for _ in range(random.int(0, 2)):
        scale, zero = grid(random, np.uint8)
        shape[1] = random.int(1, 3)
        parts += [make.fed(random.codes(*shape)), scale, zero]
    return 13, make(name, y_scale, y_zero, *parts, domain=MICROSOFT, axis=1)


@family("OnCodes", tolerance="codes")
def on_codes(random, name, make):
    """Moving operators between QLinearConv layers, as in models of the QOperator form."""
    scale, zero = grid(random, np.uint8)
    codes = make("QuantizeLinear", make.fed(random.real(1, 2, 6, 6)), scale, zero)
    # Small enough that a difference of 1 after the first layer stays 1 after the second.
    w_scale = np.float32(0.00371)
    conv = lambda x, c: make("QLinearConv", x, scale, zero, random.weights(3, c, 1, 1), w_scale, np.int8(0), scale, zero)
    codes = conv(codes, 2)
    kind = random.choose("MaxPool", "Transpose", "Reshape", "Slice", "Resize", "Flatten")
    if kind == "MaxPool":
        codes = conv(make("MaxPool", codes, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]), 3)
    elif kind == "Transpose":
        codes = conv(make("Transpose", codes, perm=[0, 1, 3, 2]), 3)
    elif kind == "Slice":
        codes = conv(make("Slice", codes, np.array([1], np.int64), np.array([9], np.int64), np.array([2], np.int64)), 3)
    elif kind == "Resize":
        codes = conv(make("Resize", codes, None, np.array([1, 1, 2, 2], np.float32), mode="nearest"), 3)
    else:
        codes = make("Flatten", codes) if kind == "Flatten" else make("Reshape", codes, np.array([1, -1], np.int64))
        codes = make("QLinearMatMul", codes, scale, zero, random.weights(108, 4), w_scale, np.int8(0), scale * np.float32(9), zero)
    return 13, [codes, make("DequantizeLinear", codes, scale, zero)] if random.chance() else codes


# ---- ONNX-ML

TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def numbers(random, *shape):
    """An operand of any type that is accepted; floats are exact, so that thresholds are met."""
    x = random.numbers.integers(-8, 9, shape)
    return x.astype(np.float32) / 4 if random.chance(0.7) else x.astype(random.choose(np.int32, np.int64))


@family("Scaler", "Normalizer", "ArrayFeatureExtractor")
def features(random, name, make):
    n, count = random.int(1, 4), random.int(1, 6)
    x = make.fed(numbers(random, n, count))
    if name == "Scaler":
        one = lambda: random.real(random.choose(1, count)).tolist()
        return 13, make(name, x, domain=CLASSIC, offset=one(), scale=one())
    if name == "Normalizer":
        return 13, make(name, x, domain=CLASSIC, **random.some(norm=random.choose("MAX", "L1", "L2")))
    return 13, make(name, x, np.array([random.int(0, count - 1) for _ in range(random.int(1, 4))], np.int64),
                    domain=CLASSIC)


def probable(values, transform):
    """Scores that PROBIT takes lie between 0 and 1."""
    return np.abs(values) / (np.abs(values).sum() * 8 + 1) if transform == "PROBIT" else values


@family("LinearRegressor", "LinearClassifier")
def linear_model(random, name, make):
    n, count, columns = random.int(1, 4), random.int(1, 6), random.int(1, 4)
    transform = random.choose(*TRANSFORMS)
    if transform == "PROBIT" and name == "LinearClassifier":
        columns += 1
    x = make.fed(np.abs(numbers(random, n, count)))
    weights = probable(random.real(columns, count, scale=0.5), transform)
    weights[0, 0] = np.abs(weights[0, 0])
    bias = np.full(columns, 0.25) if transform == "PROBIT" else random.real(columns)
    attributes = {"coefficients": weights.flatten().tolist(), "intercepts": bias.tolist(), "post_transform": transform}
    if name == "LinearRegressor":
        return 13, make(name, x, domain=CLASSIC, targets=columns, **attributes)
    labels = random.numbers.permutation(20)[:max(columns, 2)].tolist()
    return 13, make(name, x, domain=CLASSIC, outputs=2, classlabels_ints=labels, **attributes)


def forest(random, count, mixed):
    """Lists about the nodes of some trees, and the leaves as (tree, node)."""
    nodes, leaves = [], []
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    usual = random.choose(*modes)
    for tree in range(random.int(1, 4)):
        numbers = iter(range(1000))

        def grow(depth):
            number, place = next(numbers), len(nodes)
            nodes.append(None)
            if depth == 0 or random.chance(0.2):
                nodes[place] = (tree, number, 0, 0.0, "LEAF", 0, 0, 0)
                leaves.append((tree, number))
            else:
                mode = random.choose(*modes) if mixed else usual
                threshold = random.int(-8, 8) / 4
                feature, missing = random.int(0, count - 1), random.int(0, 1)
                yes, no = grow(depth - 1), grow(depth - 1)
                nodes[place] = (tree, number, feature, threshold, mode, yes, no, missing)
            return number

        grow(random.int(0, 4))
    keys = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
            "missing_value_tracks_true"]
    lists = {f"nodes_{key}": list(column) for key, column in zip(keys, zip(*nodes))}
    if random.chance():
        del lists["nodes_missing_value_tracks_true"]
    return lists, leaves


@family("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def trees(random, name, make):
    n, count = random.int(1, 5), random.int(1, 4)
    x = numbers(random, n, count)
    if x.dtype == np.float32 and random.chance(0.3):
        x[random.int(0, n - 1), random.int(0, count - 1)] = np.nan
    lists, leaves = forest(random, count, random.chance(0.4))
    transform = random.choose(*TRANSFORMS)
    classes = random.int(2, 4) if name == "TreeEnsembleClassifier" else random.int(1, 3)
    with_base = transform == "PROBIT" or random.chance()
    if name == "TreeEnsembleRegressor":
        # onnxruntime leaves out the base of a result for which no leaf votes; the standard does not.
        votes = [(*leaf, target) for leaf in leaves for target in range(classes) if with_base or random.chance(0.9)]
        weights = probable(random.real(len(votes)), transform)
        key, more = "target", {"n_targets": classes, **random.some(
            aggregate_function=random.choose("SUM", "AVERAGE", "MIN", "MAX"))}
    else:
        single = classes == 2
        votes = [(*leaf, target) for leaf in leaves for target in ([0] if single else range(classes))]
        weights = probable(random.real(len(votes)), transform)
        if single and random.chance():
            weights = np.abs(weights) / np.abs(weights).sum()
        if single and transform == "PROBIT":
            transform = "NONE"
        key, more = "class", {"classlabels_int64s": random.numbers.permutation(20)[:classes].tolist()}
    if with_base:
        base = np.full(classes, 0.25) if transform == "PROBIT" else random.real(classes)
        more["base_values"] = base.tolist() if key == "target" or classes > 2 else base.tolist()[:1]
    trees, nodes, ids = map(list, zip(*votes)) if votes else ([], [], [])
    more |= {f"{key}_treeids": trees, f"{key}_nodeids": nodes, f"{key}_ids": ids, f"{key}_weights": weights.tolist()}
    return 13, make(name, make.fed(x), domain=CLASSIC, outputs=1 if key == "target" else 2,
                    post_transform=transform, **lists, **more)


def is_finite(outputs):
    return all(value.dtype.kind != "f" or np.isfinite(value).all() for value in outputs.values())


def write(folder, name, model, inputs, outputs):
    onnx.save(model, folder / f"{name}.onnx")
    np.savez(folder / f"{name}.in.npz", **inputs)
    np.savez(folder / f"{name}.out.npz", **outputs)


def main(folder):
    lines, kept = [], Counter()
    for number, (name, (function, tolerance)) in enumerate(FAMILIES.items()):
        refused = None
        for variant in range(3 * VARIANTS):
            if kept[name] == VARIANTS:
                break
            make = Maker()
            opset, outputs = function(Random(number, variant), name, make)
            outputs = [outputs] if isinstance(outputs, str) else outputs
            model = make.model(opset, outputs)
            try:
                results = evaluate(model, make.inputs)
            except Exception as error:  # pylint: disable=broad-except; onnxruntime raises many types
                refused = error
                continue
            if not is_finite(results):
                continue
            case = f"{name}_{variant:02}"
            write(folder, case, model, make.inputs, results)
            lines.append(f"{case} {name} {tolerance}")
            kept[name] += 1
        if kept[name] < 20:
            sys.exit(f"only {kept[name]} variants of {name} run: {refused}")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
