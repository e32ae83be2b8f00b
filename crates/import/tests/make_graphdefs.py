"""Makes the GraphDefs under tests/graphdef with the numbers TensorFlow computes for them.

    pip install tensorflow-cpu
    python make_graphdefs.py

Every case is NAME.pb, a frozen graph, and NAME.npz, its inputs as `in_<placeholder>` and its
outputs as `out_<tensor>`. Seeds are fixed; tests need only the files.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
nn = tf.nn
raw = tf.raw_ops
FOLDER = pathlib.Path(__file__).parent / "graphdef"
CASES = {}
rng = np.random.default_rng(0)


def case(function):
    CASES[function.__name__] = function
    return function


def image(*shape, name="x", fixed=False):
    """A float placeholder and a batch for it."""
    declared = shape if fixed else (None,) + shape[1:]
    return v1.placeholder(tf.float32, declared, name=name), uniform(*shape)


def uniform(*shape, low=-1.0, high=1.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def const(*shape, low=-1.0, high=1.0):
    return tf.constant(uniform(*shape, low=low, high=high))


def out(tensor, name):
    return tf.identity(tensor, name=name.lstrip("_"))


@case
def conv():
    x, data = image(2, 9, 8, 3)
    w = const(3, 3, 3, 4)
    for i, (strides, padding, dilations) in enumerate([
        (1, "SAME", 1), (2, "SAME", 1), (1, "VALID", 1), ([2, 1], "VALID", 1), (1, "SAME", 2),
        (3, "SAME", 1), (1, [[0, 0], [1, 2], [0, 3], [0, 0]], 1),
    ]):
        out(nn.conv2d(x, w, strides, padding, dilations=dilations), f"y{i}")
    out(nn.bias_add(nn.conv2d(x, const(2, 2, 1, 6), 1, "VALID"), const(6)), "grouped")
    out(nn.conv2d(x, const(1, 1, 3, 2), 2, "SAME"), "pointwise")
    return {x: data}


@case
def conv_nchw():
    # TensorFlow has no NCHW convolution on processors; transposes around an NHWC one say the same.
    x, data = image(2, 3, 7, 7)
    y = nn.conv2d(tf.transpose(x, [0, 2, 3, 1]), const(3, 3, 3, 4), 1, "SAME")
    y = nn.relu(tf.transpose(y, [0, 3, 1, 2]))
    out(y, "y")
    out(tf.reduce_mean(y, [2, 3]), "mean")
    return {x: data}


@case
def depthwise():
    x, data = image(2, 8, 7, 3)
    out(nn.depthwise_conv2d(x, const(3, 3, 3, 2), [1, 1, 1, 1], "SAME"), "y0")
    out(nn.depthwise_conv2d(x, const(3, 3, 3, 1), [1, 2, 2, 1], "SAME"), "y1")
    y = nn.depthwise_conv2d(x, const(2, 3, 3, 1), [1, 1, 1, 1], "VALID")
    out(nn.relu6(nn.bias_add(y, const(3))), "y2")
    return {x: data}


@case
def conv_transpose():
    x, data = image(2, 4, 5, 3, fixed=True)
    w = const(3, 3, 2, 3)
    out(nn.conv2d_transpose(x, w, [2, 8, 10, 2], 2, "SAME"), "same")
    out(nn.conv2d_transpose(x, w, [2, 7, 9, 2], 2, "SAME"), "odd")
    out(nn.conv2d_transpose(x, w, [2, 9, 11, 2], 2, "VALID"), "valid")
    out(nn.bias_add(nn.conv2d_transpose(x, w, [2, 10, 12, 2], 2, "VALID"), const(2)), "longer")
    return {x: data}


@case
def dilated():
    """Space to batch, a convolution, and back: a convolution with dilations."""
    x, data = image(2, 10, 9, 2)
    inner = tf.space_to_batch(x, [2, 3], [[2, 2], [3, 3]])
    y = nn.conv2d(inner, const(3, 3, 2, 4), 1, "VALID")
    out(nn.bias_add(tf.batch_to_space(y, [2, 3], [[0, 0], [0, 0]]), const(4)), "y0")
    inner = tf.space_to_batch(x, [2, 2], [[2, 2], [2, 3]])
    y = nn.depthwise_conv2d(inner, const(3, 3, 2, 1), [1, 1, 1, 1], "VALID")
    out(tf.batch_to_space(y, [2, 2], [[0, 0], [0, 1]]), "y1")
    y = tf.space_to_batch(x, [2, 3], [[1, 1], [0, 0]])
    out(y, "split")
    out(tf.batch_to_space(nn.relu(y), [2, 3], [[1, 0], [0, 2]]), "joined")
    return {x: data}


@case
def pool():
    x, data = image(2, 9, 8, 3)
    for i, (size, strides, padding) in enumerate([(2, 2, "VALID"), (3, 2, "SAME"), (3, 1, "SAME")]):
        out(nn.max_pool2d(x, size, strides, padding), f"max{i}")
        out(nn.avg_pool2d(x, size, strides, padding), f"mean{i}")
    out(nn.max_pool2d(x, [3, 1], [1, 2], [[0, 0], [1, 1], [0, 0], [0, 0]]), "explicit")
    return {x: data}


@case
def normalise():
    x, data = image(2, 5, 4, 3)
    mean, variance = uniform(3), uniform(3, low=0.5, high=2.0)
    for version in (raw.FusedBatchNorm, raw.FusedBatchNormV2, raw.FusedBatchNormV3):
        y = version(x=x, scale=const(3), offset=const(3), mean=mean, variance=variance,
                    epsilon=1e-3, is_training=False)
        out(y.y, version.__name__)
    out(nn.local_response_normalization(x, depth_radius=1, bias=1.5, alpha=0.3, beta=0.75), "lrn")
    return {x: data}


@case
def matmul():
    a = v1.placeholder(tf.float32, [None, 5], name="a")
    b = v1.placeholder(tf.float32, [5, 3], name="b")
    c = v1.placeholder(tf.float32, [2, 3, 4, 5], name="c")
    out(tf.matmul(a, const(5, 6)), "y0")
    out(nn.bias_add(tf.matmul(a, const(6, 5), transpose_b=True), const(6)), "y1")
    out(tf.matmul(b, const(5, 2), transpose_a=True), "y2")
    out(tf.matmul(a, b), "y3")
    out(tf.matmul(c, const(3, 6, 5), transpose_b=True), "y4")
    out(tf.matmul(c, c, transpose_a=True), "y5")
    out(raw.BatchMatMul(x=c, y=c, adj_y=True), "y6")
    out(raw.BatchMatMulV3(x=c, y=const(5, 2), Tout=tf.float32), "y7")
    return {a: uniform(4, 5), b: uniform(5, 3), c: uniform(2, 3, 4, 5)}


@case
def fused():
    """What TensorFlow's optimiser makes of layers; there is no Python function for it."""
    x, data = image(1, 6, 6, 2, fixed=True)
    m = v1.placeholder(tf.float32, [3, 4], name="m")
    with tf.name_scope("weights"):
        w, b = tf.constant(uniform(3, 3, 2, 4), name="w"), tf.constant(uniform(4), name="b")
        q, p = tf.constant(uniform(4, 5), name="q"), tf.constant(uniform(5), name="p")
    graph = v1.get_default_graph()

    def fused_node(name, op, inputs, steps, **attributes):
        node = v1.NodeDef(name=name, op=op, input=[tensor.name for tensor in inputs])
        node.attr["T"].type = tf.float32.as_datatype_enum
        node.attr["num_args"].i = len(inputs) - 2
        if op == "_FusedConv2D":
            node.attr["TArgs"].list.type.extend([tf.float32.as_datatype_enum] * (len(inputs) - 2))
        node.attr["fused_ops"].list.s.extend(step.encode() for step in steps)
        for key, value in attributes.items():
            if isinstance(value, list):
                node.attr[key].list.i.extend(value)
            else:
                node.attr[key].s = value
        NODES.append(node)
        return name

    strides = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    fused_node("y0", "_FusedConv2D", [x, w, b], ["BiasAdd"], **strides)
    fused_node("y1", "_FusedConv2D", [x, w, b], ["BiasAdd", "Relu"], **strides)
    fused_node("y2", "_FusedConv2D", [x, w, b, b, b, tf.abs(b)], ["FusedBatchNorm", "Relu6"], **strides)
    fused_node("y3", "_FusedMatMul", [m, q, p], ["BiasAdd", "Relu"])
    assert graph is v1.get_default_graph()
    return {x: data, m: uniform(3, 4)}


NODES = []


@case
def unary():
    x, data = image(2, 3, 4, 5)
    positive = tf.abs(x) + 0.25
    for function in (nn.relu, nn.relu6, nn.elu, nn.selu, tf.sigmoid, tf.tanh, nn.softplus, nn.softsign,
                     tf.exp, tf.square, tf.negative, tf.abs, tf.sign, tf.floor, tf.math.ceil, tf.round,
                     tf.math.erf, tf.stop_gradient, tf.math.rint):
        out(function(x * 3.0), function.__name__)
    out(raw.Inv(x=positive), "inv")
    for function in (tf.math.log, tf.sqrt, tf.math.rsqrt, tf.math.reciprocal):
        out(function(positive), function.__name__)
    out(nn.leaky_relu(x, 0.1), "leaky")
    out(nn.softmax(x), "softmax")
    out(nn.log_softmax(x), "log_softmax")
    data[0, 0, 0] = [-0.5, 0.5, 1 / 6, -1 / 6, 0.0]
    return {x: data}


@case
def binary():
    x, data = image(2, 3, 4, 5)
    y = v1.placeholder(tf.float32, [4, 5], name="y")
    i = v1.placeholder(tf.int32, [8], name="i")
    for function in (tf.add, tf.subtract, tf.multiply, tf.divide, tf.maximum, tf.minimum,
                     tf.math.squared_difference):
        out(function(x, y), function.__name__)
    out(raw.Add(x=x, y=const(5)), "old_add")
    out(tf.pow(tf.abs(x), 1.5), "pow")
    out(tf.math.floordiv(x, y), "floordiv")
    out(tf.math.floordiv(i, [3, -3, 3, -3, 4, -4, 7, 1]), "floordiv_i")
    out(tf.truncatediv(i, [3, -3, 3, -3, 4, -4, 7, 1]), "truncatediv")
    out(tf.add_n([x, x * 2.0, x * x]), "add_n")
    out(raw.ClipByValue(t=x, clip_value_min=-0.25, clip_value_max=0.5), "clip")
    out(raw.Div(x=i, y=tf.constant([2, -2, 2, -2, 3, 3, 5, 5])), "div_i")
    return {x: data, y: uniform(4, 5, low=0.5), i: np.array([7, 7, -7, -7, 8, 8, -1, 5], np.int32)}


@case
def logic():
    x, data = image(4, 3, fixed=True)
    y = v1.placeholder(tf.float32, [3], name="y")
    a, b = tf.greater(x, y), tf.less_equal(x, 0.5)
    for function in (tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal):
        out(function(x, y), function.__name__)
    out(tf.logical_and(a, b), "and")
    out(tf.logical_or(a, tf.logical_not(b)), "or")
    out(tf.where(a, x, y), "where")
    out(raw.Select(condition=tf.reduce_max(x, 1) > 0.5, x=x, y=-x), "select")
    out(tf.cast(a, tf.float32), "cast")
    out(tf.cast(x * 10.0, tf.int32), "cast_int")
    second = uniform(3)
    data[0] = second
    return {x: data, y: second}


@case
def reduce():
    x, data = image(2, 3, 4, 5)
    for function in (tf.reduce_mean, tf.reduce_sum, tf.reduce_max, tf.reduce_min, tf.reduce_prod):
        out(function(x, [1, 2]), function.__name__ + "_hw")
        out(function(x, [1, 2], keepdims=True), function.__name__ + "_keep")
        out(function(x, -1), function.__name__ + "_last")
        out(function(x), function.__name__ + "_all")
    out(tf.argmax(x, 3), "argmax")
    out(tf.argmin(x, 1, output_type=tf.int32), "argmin")
    return {x: data}


@case
def stored():
    """Operators behind a convolution, whose result is stored channels first."""
    x, data = image(2, 4, 6, 3, fixed=True)
    s = v1.placeholder(tf.float32, [4], name="s")
    t = nn.relu(nn.conv2d(x, const(3, 3, 3, 4), 1, "SAME"))
    out(t * s, "list")
    out(t + tf.constant(uniform(6, 4)), "matrix")
    out(tf.constant(uniform(2, 4, 6, 4)) - t, "whole")
    out(t * tf.sigmoid(tf.reduce_mean(t, [1, 2], keepdims=True)), "excite")
    out(tf.concat([t, tf.constant(uniform(2, 4, 6, 2)), x], 3), "concat")
    out(tf.concat([t, t], -3), "concat_rows")
    for i, part in enumerate(tf.split(t, [1, -1, 2], 3)):
        out(part, f"split{i}")
    out(tf.pad(t, [[0, 0], [1, 2], [0, 1], [3, 0]]), "pad")
    out(t[:, 1:3, ::2, -1], "slice")
    out(tf.reduce_sum(t, 3), "sum")
    out(tf.reduce_sum(t, [1, 3], keepdims=True), "sum_keep")
    out(tf.argmax(t, 3), "argmax")
    out(nn.softmax(t), "softmax")
    out(tf.tile(t, [1, 2, 1, 3]), "tile")
    out(tf.transpose(t, [0, 3, 1, 2]), "transpose")
    out(tf.transpose(t, [3, 1, 0, 2]), "other_transpose")
    out(tf.reshape(t, [-1, 24]), "reshape")
    out(tf.stack([t, t * 2.0], 3), "stack")
    for i, part in enumerate(tf.unstack(t[:, :2], axis=1)):
        out(part, f"unstack{i}")
    out(tf.expand_dims(t, 2), "expand")
    out(tf.squeeze(nn.max_pool2d(t, [4, 6], 1, "VALID"), [1, 2]), "squeeze")
    out(tf.reshape(tf.reduce_mean(t, [1, 2], keepdims=True), [2, 4]), "flat")
    out(tf.gather(t, [3, 0, 0], axis=3), "gather")
    out(tf.where(t > 0.5, t, s), "where")
    out(raw.Shape(input=t, out_type=tf.int64), "shape")
    out(raw.ZerosLike(x=t), "zeros")
    out(raw.Select(condition=tf.constant([True, False]), x=t, y=-t), "select")
    return {x: data, s: uniform(4)}


@case
def slices():
    x, data = image(4, 5, 6, fixed=True)
    out(x[1:3, ::2, -1], "a")
    out(x[..., 1:-1], "b")
    out(x[::-1, 4:0:-2, :], "c")
    out(x[:, tf.newaxis, 2, ..., tf.newaxis], "d")
    out(x[-1], "e")
    out(x[:, -100:100, 5:-100:-1], "f")
    out(tf.slice(x, [1, 0, 2], [2, -1, 3]), "g")
    out(tf.strided_slice(x, [1, 1], [9, 9], begin_mask=1, end_mask=2), "h")
    for i, part in enumerate(tf.split(x, 3, 2)):
        out(part, f"part{i}")
    out(tf.gather(x, [[0, 2], [3, 3]], axis=0), "i")
    out(tf.gather(x, tf.constant([4, 0]), axis=1), "j")
    out(raw.Gather(params=x, indices=[1, 1, 3]), "k")
    return {x: data}


@case
def pads():
    x, data = image(3, 4, 5, fixed=True)
    paddings = [[1, 2], [0, 3], [2, 1]]
    out(tf.pad(x, paddings), "zero")
    out(tf.pad(x, paddings, constant_values=-1.5), "constant")
    out(tf.pad(x, paddings, "REFLECT"), "reflect")
    out(tf.pad(x, paddings, "SYMMETRIC"), "symmetric")
    out(tf.pad(x, [[3, 3], [0, 0], [5, 0]], "SYMMETRIC"), "symmetric_all")
    return {x: data}


@case
def shapes():
    """Shapes that the model computes, which must become constants."""
    x, data = image(3, 4, 6)
    shape = raw.Shape(input=x)
    out(tf.reshape(x, tf.stack([shape[0], -1])), "flat")
    out(tf.reshape(x, tf.concat([shape[1:], [shape[0]]], 0)), "turned")
    out(tf.fill(tf.stack([shape[2], 2]), 1.5) * tf.cast(raw.Size(input=x), tf.float32), "fill")
    out(tf.range(0, shape[2], 2), "range")
    out(tf.range(0.0, 1.0, 0.3), "range_f")
    out(x + tf.cast(raw.Rank(input=x), tf.float32), "rank")
    out(tf.broadcast_to(x[:, :1], [2, 3, 4, 6]), "broadcast")
    out(tf.squeeze(tf.expand_dims(tf.expand_dims(x, 0), -1)), "squeeze")
    out(tf.tile(x, tf.stack([1, shape[0], 1])), "tile")
    out(raw.OnesLike(x=x) + tf.constant(2.0, shape=[4, 6]), "ones")
    return {x: data}


@case
def types():
    """Constants in every storage form, and 16-bit floats that are cast."""
    x, data = image(4, fixed=True)
    i = v1.placeholder(tf.int32, [4], name="i")
    half = tf.constant(uniform(4).astype(np.float16))
    brain = tf.constant(uniform(4).astype(tf.bfloat16.as_numpy_dtype))
    out(x + tf.cast(half, tf.float32) + tf.cast(brain, tf.float32), "half")
    out(x + tf.cast(tf.constant(0.1, tf.float16, [4]), tf.float32), "half_list")
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int64, tf.uint32, tf.uint64, tf.float64):
        listed = tf.constant(7, dtype, [4])
        content = tf.constant(np.arange(4).astype(dtype.as_numpy_dtype))
        out(tf.cast(listed, tf.int32) * i + tf.cast(content, tf.int32), "t_" + dtype.name)
    out(tf.logical_and(x > 0.0, tf.constant([True, False, True, True])), "bool")
    return {x: data, i: np.array([1, 2, 3, 4], np.int32)}


@case
def resize():
    x, data = image(1, 4, 6, 2, fixed=True)
    for name, function in (("b", raw.ResizeBilinear), ("n", raw.ResizeNearestNeighbor)):
        for i, size in enumerate([(8, 12), (7, 5), (2, 3), (13, 29), (1, 1)]):
            out(function(images=x, size=size), f"{name}{i}_legacy")
            out(function(images=x, size=size, align_corners=True), f"{name}{i}_align")
            out(function(images=x, size=size, half_pixel_centers=True), f"{name}{i}_half")
    return {x: data}


@case
def blocks():
    x, data = image(2, 4, 6, 8)
    out(nn.space_to_depth(x, 2), "down")
    out(nn.depth_to_space(x, 2), "up")
    return {x: data}


@case
def fake_quant():
    x, data = image(2, 4, 4, 3, fixed=True)
    q = tf.quantization
    out(q.fake_quant_with_min_max_vars(x, -0.7, 0.9), "vars")
    out(q.fake_quant_with_min_max_vars(x, 0.1, 0.9, num_bits=4), "moved")
    out(q.fake_quant_with_min_max_vars(x, -0.5, 0.5, num_bits=5, narrow_range=True), "narrow")
    out(q.fake_quant_with_min_max_vars(x, 0.0, 0.0), "zero")
    out(q.fake_quant_with_min_max_args(x, -0.6, 1.0), "args")
    per = q.fake_quant_with_min_max_vars_per_channel
    out(per(x, [-0.1, -0.5, 0.0], [0.6, 0.5, 0.25]), "channels")
    w = per(const(3, 3, 3, 2), [-0.5, -1.0], [0.5, 1.0], narrow_range=True)
    y = nn.conv2d(q.fake_quant_with_min_max_vars(x, -1.0, 1.0), w, 1, "SAME")
    y = q.fake_quant_with_min_max_vars(nn.relu6(nn.bias_add(y, const(2))), 0.0, 6.0)
    out(per(y, [0.0, 0.0], [3.0, 1.0], narrow_range=True), "layer")
    return {x: data}


@case
def ports():
    """Several results, aliases, controls, defaults, and nodes that are not needed."""
    x, data = image(2, 6, fixed=True)
    d = v1.placeholder_with_default(tf.constant(2.0), [], name="d")
    parts = tf.split(x, 3, 1, name="parts")
    with tf.control_dependencies([tf.no_op(name="nothing"), parts[1]]):
        y = tf.multiply(parts[0], d, name="product")
    out(y, "y")
    out(y, "again")
    out(tf.constant([1.0, 2.0], name="values"), "constant")
    out(x, "input")
    out(tf.identity_n([y + 1.0, x])[1], "second")
    tf.constant(3, name="unused")
    return {x: data}


@case
def cnn():
    """As keras writes it: convolutions, flattened in TensorFlow's order, dense layers."""
    x, data = image(3, 12, 12, 1)
    y = nn.relu(nn.bias_add(nn.conv2d(x, const(3, 3, 1, 4), 1, "VALID"), const(4)))
    y = nn.max_pool2d(y, 2, 2, "VALID")
    y = nn.relu(nn.bias_add(nn.conv2d(y, const(3, 3, 4, 6), 1, "SAME"), const(6)))
    y = tf.reshape(y, [-1, 5 * 5 * 6])
    y = nn.relu(nn.bias_add(tf.matmul(y, const(150, 8)), const(8)))
    out(nn.softmax(nn.bias_add(tf.matmul(y, const(8, 4)), const(4))), "Identity")
    return {x: data}


def batch_norm(x, channels):
    return raw.FusedBatchNormV3(x=x, scale=const(channels, low=0.5), offset=const(channels),
                                mean=const(channels), variance=const(channels, low=0.5),
                                epsilon=1e-3, is_training=False).y


@case
def mobilenet():
    x, data = image(2, 9, 9, 3)
    y = nn.relu6(batch_norm(nn.conv2d(x, const(3, 3, 3, 8), 2, "SAME"), 8))
    z = nn.relu6(batch_norm(nn.conv2d(y, const(1, 1, 8, 16), 1, "SAME"), 16))
    z = nn.relu6(batch_norm(nn.depthwise_conv2d(z, const(3, 3, 16, 1), [1, 1, 1, 1], "SAME"), 16))
    z = batch_norm(nn.conv2d(z, const(1, 1, 16, 8), 1, "SAME"), 8)
    y = tf.add(y, z)
    y = tf.pad(y, [[0, 0], [0, 1], [0, 1], [0, 0]])
    y = nn.relu6(batch_norm(nn.depthwise_conv2d(y, const(3, 3, 8, 1), [1, 2, 2, 1], "VALID"), 8))
    y = tf.reduce_mean(y, [1, 2])
    out(nn.bias_add(tf.matmul(y, const(8, 5)), const(5)), "logits")
    return {x: data}


@case
def resnet():
    x, data = image(2, 11, 11, 4)
    y = tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]])
    y = nn.relu(batch_norm(nn.conv2d(y, const(5, 5, 4, 8), 2, "VALID"), 8))
    y = nn.max_pool2d(y, 3, 2, "SAME")
    z = nn.relu(batch_norm(nn.conv2d(y, const(3, 3, 8, 8), 1, "SAME"), 8))
    z = batch_norm(nn.conv2d(z, const(3, 3, 8, 8), 1, "SAME"), 8)
    y = nn.relu(y + z)
    short = batch_norm(nn.conv2d(y, const(1, 1, 8, 12), 2, "SAME"), 12)
    z = nn.relu(batch_norm(nn.conv2d(y, const(3, 3, 8, 12), 2, "SAME"), 12))
    y = out(nn.relu(short + batch_norm(nn.conv2d(z, const(3, 3, 12, 12), 1, "SAME"), 12)), "features")
    y = tf.squeeze(tf.reduce_mean(y, [1, 2], keepdims=True), [1, 2])
    out(nn.softmax(nn.bias_add(tf.matmul(y, const(12, 3)), const(3))), "classes")
    return {x: data}


@case
def keras_model():
    """A real keras model, frozen by TensorFlow's own converter."""
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((8, 8, 2)),
        layers.Conv2D(4, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.SeparableConv2D(6, 3, strides=2, padding="same"),
        layers.LeakyReLU(),
        layers.UpSampling2D(2),
        layers.Conv2DTranspose(3, 2, strides=2),
        layers.AveragePooling2D(2),
        layers.Dropout(0.5),
        layers.Flatten(),
        layers.Dense(5, activation="softmax"),
    ])
    function = tf.function(lambda x: model(x, training=False))
    function = function.get_concrete_function(tf.TensorSpec([1, 8, 8, 2], tf.float32, "x"))
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    return convert_variables_to_constants_v2(function).graph.as_graph_def(), {"x": uniform(1, 8, 8, 2)}


def sinks(graph_def):
    read = {name.split(":")[0] for node in graph_def.node for name in node.input if name[0] != "^"}
    skip = ("NoOp", "Const", "Placeholder", "PlaceholderWithDefault")
    return [node.name for node in graph_def.node if node.name not in read and node.op not in skip]


def build(function):
    """The graph and its inputs by name."""
    NODES.clear()
    eager = function is keras_model
    if eager:
        return function()
    with tf.Graph().as_default() as graph:
        feeds = function()
        graph_def = graph.as_graph_def()
    graph_def.node.extend(NODES)
    return graph_def, {tensor.op.name: data for tensor, data in feeds.items()}


def main(names):
    FOLDER.mkdir(exist_ok=True)
    for name, function in CASES.items():
        global rng
        rng = np.random.default_rng(sum(name.encode()))
        graph_def, inputs = build(function)
        del graph_def.library.function[:]
        for node in graph_def.node:
            node.ClearField("experimental_debug_info")
        if names and name not in names:
            continue
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            outputs = sinks(graph_def)
            options = v1.ConfigProto()
            options.graph_options.rewrite_options.disable_meta_optimizer = True
            with v1.Session(graph=graph, config=options) as session:
                values = session.run([o + ":0" for o in outputs], {k + ":0": v for k, v in inputs.items()})
        arrays = {"in_" + key: value for key, value in inputs.items()}
        arrays |= {"out_" + key: value for key, value in zip(outputs, values)}
        (FOLDER / f"{name}.pb").write_bytes(graph_def.SerializeToString(deterministic=True))
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
        print(name, len(graph_def.node), "nodes", len(outputs), "outputs")


if __name__ == "__main__":
    main(sys.argv[1:])
