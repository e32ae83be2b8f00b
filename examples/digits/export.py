"""Build the three ONNX models.  Parameters come as dicts of NumPy arrays."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"


class FloatGraph:
    """The network in float32.  Subclasses change parameters and activations."""

    def __init__(self, params):
        self.params, self.nodes, self.inits = params, [], {}

    def init(self, name, value, dtype=np.float32):
        if name not in self.inits:
            self.inits[name] = numpy_helper.from_array(np.array(value, dtype, order="C"), name)
        return name

    def node(self, op, name, inputs, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [name + "_out"], name, **attrs))
        return name + "_out"

    def param(self, name):
        """The tensor that carries a weight or bias."""
        return self.init(name, self.params[name])

    def act(self, name, tensor):
        """What follows the activation `tensor`."""
        return tensor

    def after_conv2(self, x):
        return x

    def conv(self, name, x, k, bias=True):
        inputs = [x, self.param(name + ".w")]
        if bias:
            inputs.append(self.param(name + ".b"))
        return self.node("Conv", name, inputs, kernel_shape=[k, k], pads=[k // 2] * 4, strides=[1, 1])

    def gemm(self, name, x):
        return self.node("Gemm", name, [x, self.param(name + ".w"), self.param(name + ".b")], transB=1)

    def relu(self, name, x):
        return self.act(name, self.node("Relu", name, [x]))

    def pool(self, op, name, x):
        return self.act(name, self.node(op, name, [x], kernel_shape=[2, 2], strides=[2, 2]))

    def model(self, domain=None):
        x = self.act("image", "image")
        x = self.relu("relu1", self.conv("conv1", x, 3, bias=False))
        x = self.pool("MaxPool", "pool1", x)
        x = self.relu("relu2", self.after_conv2(self.conv("conv2", x, 3)))
        y = self.act("conv3", self.conv("conv3", x, 1))
        x = self.relu("relu3", self.node("Add", "add3", [x, y]))
        x = self.pool("AveragePool", "pool2", x)
        x = self.node("Flatten", "flatten", [x], axis=1)
        x = self.relu("relu4", self.gemm("fc1", x))
        self.act("fc2", self.gemm("fc2", x))
        self.nodes[-1].output[0] = "logits"

        def value(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"] + shape)

        graph = helper.make_graph(self.nodes, "digits", [value("image", [1, 8, 8])],
                                  [value("logits", [10])], list(self.inits.values()))
        opsets = [helper.make_opsetid("", 13)]
        if domain:
            opsets.append(helper.make_opsetid(domain, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=7,
                                 producer_name="quincunx/examples/digits")


class BatchNormGraph(FloatGraph):
    """With inference-form batch norm after conv2."""

    def __init__(self, params, mean, var, epsilon):
        super().__init__({**params, "bn2.mean": mean, "bn2.var": var})
        self.epsilon = epsilon

    def after_conv2(self, x):
        stats = [self.param("bn2." + n) for n in ("gamma", "beta", "mean", "var")]
        return self.node("BatchNormalization", "bn2", [x] + stats, epsilon=self.epsilon)


class QdqGraph(FloatGraph):
    """QuantizeLinear and DequantizeLinear around every layer.

    Activations are uint8, one scale and zero point per tensor, from `grids`.
    Weights are int8 and symmetric, one scale per output channel.
    Biases are int32 with the scale input scale * weight scale.
    """

    GRID = {"pool1": "relu1"}  # max pooling keeps the grid of its input
    SOURCE = {"conv1": "image", "conv2": "relu1", "conv3": "relu2", "fc1": "pool2", "fc2": "relu4"}

    def __init__(self, params, grids):
        super().__init__(params)
        self.grids = grids

    def act(self, name, tensor):
        grid = self.GRID.get(name, name)
        scale, zero = self.grids[grid]
        args = [self.init(grid + "_scale", scale), self.init(grid + "_zero", zero, np.uint8)]
        codes = self.node("QuantizeLinear", name + "_q", [tensor] + args)
        return self.node("DequantizeLinear", name + "_dq", [codes] + args)

    def weight_scale(self, layer):
        w = self.params[layer + ".w"]
        if layer == "conv1":  # multiples of 1/8 up to 7/8: exact on this grid
            return np.full(len(w), 1 / 128, np.float32)
        return (np.abs(w.reshape(len(w), -1)).max(1) / 127).astype(np.float32)

    def param(self, name):
        layer, kind = name.split(".")
        value, scale, dtype = self.params[name], self.weight_scale(layer), np.int8
        if kind == "b":
            scale, dtype = scale * np.float32(self.grids[self.SOURCE[layer]][0]), np.int32
        codes = np.rint(value / scale.reshape([-1] + [1] * (value.ndim - 1)))
        inputs = [self.init(name, codes, dtype), self.init(name + "_scale", scale),
                  self.init(name + "_zero", np.zeros(len(scale)), dtype)]
        return self.node("DequantizeLinear", name + "_dq", inputs, axis=0)


class Pow2Graph(FloatGraph):
    """QONNX Quant nodes on every parameter and on the tensors in `quants`."""

    def __init__(self, params, quants):
        super().__init__(params)
        self.quants = quants

    def quant(self, name, tensor):
        q = self.quants.get(name)
        if q is None:
            return tensor
        inputs = [tensor, self.init(name + "_scale", q.scale), self.init("zero", 0),
                  self.init(f"bits{q.bits}", q.bits)]
        return self.node("Quant", name + "_quant", inputs, domain=QONNX,
                         signed=q.signed, narrow=q.narrow, rounding_mode=q.mode)

    def act(self, name, tensor):
        return self.quant(name, tensor)

    def param(self, name):
        return self.quant(name, self.init(name, self.params[name]))

    def model(self):
        return super().model(QONNX)
