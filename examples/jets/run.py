"""hls4ml's jet tagger on all machines: run.py [work folder]

No package ships the trained network or its data, so this is the published architecture with untrained
weights: see README.md.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common

WIDTHS = [16, 64, 32, 32, 5]
EVENTS = 500
NETS = ["6 bits", "8 bits", "float"]
# The least agreement with onnxruntime, in events of 500. `None`: the target must leave the net to the host.
# What is on grids from end to end agrees in every event; else a few events have two classes of nearly the
# same probability.
LEAST = {
    "6 bits": {"dais": 500, "scamp": None, "dpas": None, "tcu": 480, "npu": 495},
    "8 bits": {"dais": 500, "scamp": None, "dpas": 500, "tcu": 485, "npu": 495},
    "float": {"dais": 475, "scamp": None, "dpas": 475, "tcu": 485, "npu": 475},
}


# The network

class Builder:
    """Collects nodes and constants of a model."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def model(self, imports):
        graph = helper.make_graph(
            self.nodes, "jets", [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", WIDTHS[0]])],
            [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", WIDTHS[-1]])], self.constants)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid(*pair) for pair in imports])
        onnx.checker.check_model(model)
        return model


def weights():
    """Weights and biases, drawn for layers with ReLU. They are not trained."""
    random = np.random.default_rng(1664)
    return [(np.clip(random.normal(0, np.sqrt(2 / fan), (fan, count)), -0.98, 0.98), random.normal(0, 0.1, count))
            for fan, count in zip(WIDTHS, WIDTHS[1:])]


def tagger(quant=None, bits=0):
    """The network 16-64-32-32-5. `quant(builder, value, name, scale, bits, signed)` adds a quantiser."""
    builder, value = Builder(), "features"
    def quantised(value, name, scale, signed):
        return quant(builder, value, name, scale, bits, signed) if quant else value
    if quant:
        value = quant(builder, value, "features_q", 2.0 ** -4, 8, True)
    for layer, (matrix, bias) in enumerate(weights(), 1):
        last = layer == len(WIDTHS) - 1
        matrix = quantised(builder.constant(f"w{layer}", matrix), f"w{layer}_q", 2.0 ** (1 - bits), True)
        bias = quantised(builder.constant(f"b{layer}", bias), f"b{layer}_q", 2.0 ** (1 - bits), True)
        value = builder.node("Gemm", [value, matrix, bias], f"dense{layer}")
        if not last:
            value = builder.node("Relu", [value], f"relu{layer}")
            value = quantised(value, f"relu{layer}_q", 2.0 ** (3 - bits), False)
    builder.node("Softmax", [value], "probabilities", axis=1)
    return builder.model([("", 13), ("qonnx.custom_op.general", 1)] if quant else [("", 13)])


def qonnx(builder, value, name, scale, bits, signed):
    """A node `Quant` of QONNX."""
    inputs = [value, builder.constant(f"{name}_scale", scale), builder.constant(f"{name}_zero", 0),
              builder.constant(f"{name}_bits", bits)]
    return builder.node("Quant", inputs, name, domain="qonnx.custom_op.general", signed=int(signed), narrow=0,
                        rounding_mode="ROUND")


def standard(builder, value, name, scale, bits, signed):
    """The same in operators that onnxruntime has. Scales are powers of two, so nothing is rounded but by Round."""
    low, high = (-2 ** (bits - 1), 2 ** (bits - 1) - 1) if signed else (0, 2 ** bits - 1)
    factor = builder.constant(f"{name}_scale", scale)
    code = builder.node("Round", [builder.node("Div", [value, factor], f"{name}_divided")], f"{name}_rounded")
    limits = [builder.constant(f"{name}_low", low), builder.constant(f"{name}_high", high)]
    return builder.node("Mul", [builder.node("Clip", [code, *limits], f"{name}_code"), factor], name)


def models(name):
    """The model that is compiled, and the one for onnxruntime."""
    if name == "float":
        return tagger(), tagger()
    bits = int(name.split()[0])
    return tagger(qonnx, bits), tagger(standard, bits)


def events(seed):
    """The real features are standardised; these are standard normal numbers, so they are no jets."""
    return np.random.default_rng(seed).normal(0, 1, (EVENTS, WIDTHS[0])).astype(np.float32)


# What is judged

def judge(found, expected):
    """Events with the same class, and the largest difference of a probability."""
    same = (found.argmax(axis=1) == expected.argmax(axis=1)).sum()
    return int(same), float(np.abs(found - expected).max())


def run_net(name, work, data, calibration, checks):
    """Programs of all targets, and rows of the table of results."""
    compiled, reference = models(name)
    path = work / f"jets_{name.replace(' ', '_')}.onnx"
    onnx.save(compiled, path)
    session = onnxruntime.InferenceSession(reference.SerializeToString(), providers=["CPUExecutionProvider"])
    [expected] = session.run(None, {"features": data})
    programs, rows = [], []
    for target in common.TARGETS:
        program = common.Program(work / f"{path.stem}.{target}", target, path, calibrate=calibration)
        programs.append((name, program))
        least = LEAST[name][target]
        if (least is None) != (program.share == 0):
            sys.exit(f"{name} on {target}: {program.share:.0%} of the multiplications are on the machine")
        if least is None:
            continue
        same, difference = judge(program.run({"features": data})["probabilities"], expected)
        program.verify({"features": data}, EVENTS)
        rows.append((name, target, common.percent(program.share), f"{same} of {EVENTS}", f"{difference:.2g}"))
        checks.at_least(f"{name}, {target}: events with the class of onnxruntime", same, least)
        checks.at_least(f"{name}, {target}: events that are bit exact", program.bit_exact[0], EVENTS)
        print(*rows[-1], sep=" | ", flush=True)
    return programs, rows


def main():
    work, checks, page = common.work_folder("jets"), common.Checks(), common.Page("Jet tagger 16-64-32-32-5")
    data, calibration = events(1), work / "calibration.npz"
    np.savez(calibration, features=events(2))
    programs, rows = [], []
    for name in NETS:
        more_programs, more_rows = run_net(name, work, data, calibration, checks)
        programs += more_programs
        rows += more_rows
    page.text("The published architecture of hls4ml's jet tagger with weights that are drawn, not trained, on events "
              "that are drawn too. The numbers say how well the machines compute this network, not how well it tags.")
    page.heading("Agreement with onnxruntime, event by event")
    page.table(["network", "target", "multiplications on the machine", "events with the same class",
                "largest difference of a probability"], rows)
    page.heading("Programs")
    page.programs(programs)
    page.checks(checks)
    page.write(work)
    checks.finish()


if __name__ == "__main__":
    main()
