"""Small networks that onnxruntime's quantiser makes, for tests/families.rs: quantised.py FOLDER

Networks with random weights, quantised in the forms QDQ and QOperator with signed and unsigned codes, per tensor and
per channel, and with weights only (dynamic). Files are as those of families.py. Results are on the grid of the last
layer; a rounding that goes the other way in an early layer may move a late one by a code, so the tolerance is two
codes of 256.
"""
import contextlib
import io
import sys
import tempfile
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from families import evaluate, write

SHAPE = [1, 3, 12, 12]


class Network:
    """A float network under construction; every call adds a layer and returns its result."""

    def __init__(self, random):
        self.random, self.nodes, self.constants = random, [], []

    def weight(self, *shape):
        fan = np.prod(shape[1:]) if len(shape) > 1 else 4
        value = (self.random.normal(size=shape) / np.sqrt(fan)).astype(np.float32)
        self.constants.append(numpy_helper.from_array(value, f"w{len(self.constants)}"))
        return self.constants[-1].name

    def __call__(self, op, *operands, **attributes):
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [result], name=f"{op}_{len(self.nodes)}", **attributes))
        return result

    def conv(self, x, channels, filters, kernel=3, **attributes):
        group = attributes.get("group", 1)
        weights = self.weight(filters, channels // group, kernel, kernel)
        return self("Conv", x, weights, self.weight(filters), pads=[kernel // 2] * 4, **attributes)

    def model(self, last, shape):
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def plain(net):
    x = net("MaxPool", net("Relu", net.conv("x", 3, 8)), kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net.conv(x, 8, 8, group=8))
    x = net("Flatten", net("GlobalAveragePool", net("Relu", net.conv(x, 8, 10, kernel=1))))
    return net("Gemm", x, net.weight(10, 5), net.weight(5)), [1, 5]


def residual(net):
    x = net("Relu", net.conv("x", 3, 6, strides=[2, 2]))
    y = net.conv(net("LeakyRelu", net.conv(x, 6, 6), alpha=0.1), 6, 6)
    x = net("Relu", net("Add", x, y))
    x = net("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return net("MatMul", net("Flatten", x), net.weight(54, 4)), [1, 4]


def branches(net):
    a = net("Sigmoid", net.conv("x", 3, 4))
    b = net("Clip", net.conv("x", 3, 4, kernel=1), net.weight(), "")
    x = net("Mul", net("Concat", a, b, axis=1), net("Concat", b, a, axis=1))
    x = net("Resize", net("MaxPool", x, kernel_shape=[3, 3], strides=[3, 3]), "", net.scales(), mode="nearest")
    x = net("Transpose", net.conv(x, 8, 2), perm=[0, 2, 3, 1])
    return x, [1, 8, 8, 2]


def scales(net):
    net.constants.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    return "scales"


Network.scales = scales


class Images(CalibrationDataReader):
    def __init__(self, random):
        self.images = iter(random.normal(size=[8, *SHAPE]).astype(np.float32))

    def get_next(self):
        image = next(self.images, None)
        return None if image is None else {"x": image}


def quantised(model, random, folder, form, per_channel, kind):
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(model, source)
    # Unsigned by signed bytes: see `weights` of families.py.
    reduce = kind == QuantType.QUInt8 and per_channel
    with contextlib.redirect_stdout(io.StringIO()):
        if form == "dynamic":
            quantize_dynamic(source, target, per_channel=per_channel, reduce_range=reduce, weight_type=kind)
        else:
            weights = QuantType.QInt8 if per_channel else kind
            quantize_static(source, target, Images(random), quant_format=QuantFormat[form], per_channel=per_channel,
                            reduce_range=reduce, activation_type=kind, weight_type=weights)
    return onnx.load(target)


def main(folder):
    lines = []
    for seed in range(3):
        for make in [plain, residual, branches]:
            for form in ["QDQ", "QOperator", "dynamic"]:
                for per_channel in [False, True]:
                    for kind in [QuantType.QUInt8, QuantType.QInt8]:
                        if form == "dynamic" and (per_channel or make is branches) or kind == QuantType.QInt8 and form == "dynamic":
                            continue
                        random = np.random.default_rng([seed, len(lines)])
                        net = Network(random)
                        last, shape = make(net)
                        with tempfile.TemporaryDirectory() as temporary:
                            model = quantised(net.model(last, shape), random, Path(temporary), form, per_channel, kind)
                        inputs = {"x": random.normal(size=SHAPE).astype(np.float32)}
                        name = f"{make.__name__}_{form}_{'channel' if per_channel else 'tensor'}_{kind.name}_{seed}"
                        write(folder, name, model, inputs, evaluate(model, inputs))
                        lines.append(f"{name} {form} {2 / 128}")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
