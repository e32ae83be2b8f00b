"""A convolution network of Brevitas on an FPGA, by way of QONNX, bit for bit.

    pip install './tools/python[brevitas]'
    python from_brevitas.py

Nothing is trained: the weights are random.
"""

# %% A network with quantisers whose scales are powers of two.
import brevitas.nn as qnn
import numpy as np
import torch
from brevitas.quant import Int8ActPerTensorFixedPoint, Int8WeightPerTensorFixedPoint, Uint8ActPerTensorFixedPoint

import quincunx

torch.manual_seed(0)
weights = {"weight_quant": Int8WeightPerTensorFixedPoint, "weight_bit_width": 5}
network = torch.nn.Sequential()
network.add_module("start", qnn.QuantIdentity(act_quant=Int8ActPerTensorFixedPoint))
network.add_module("conv1", qnn.QuantConv2d(1, 4, 3, padding=1, bias=False, **weights))
network.add_module("relu1", qnn.QuantReLU(act_quant=Uint8ActPerTensorFixedPoint, bit_width=6))
network.add_module("pool1", torch.nn.MaxPool2d(2))
network.add_module("conv2", qnn.QuantConv2d(4, 6, 3, bias=False, **weights))
network.add_module("relu2", qnn.QuantReLU(act_quant=Uint8ActPerTensorFixedPoint, bit_width=6))
network.add_module("flat", torch.nn.Flatten())
network.add_module("logits", qnn.QuantLinear(24, 5, bias=False, **weights))


# %% The network, a program, and what both compute.
def main() -> None:
    samples = torch.randn(500, 1, 8, 8)
    with torch.no_grad():
        # Quantisers of values learn their ranges from the first batches.
        network.train()
        network(samples)
        network.eval()
        expected = network(samples)
    model = quincunx.from_torch(network, samples[:1], input_names=["image"], output_names=["logits"])
    for node in model.nodes:
        print(f"{node.name:16} {node.op}")
    program = quincunx.compile(model, "dais", effort="fast")
    print(program)
    found = program.run(samples.numpy())["logits"]
    same = np.array_equal(found, getattr(expected, "value", expected).numpy())
    print("the same as Brevitas in every bit" if same else "differs from Brevitas")
    assert same
    print(program.verify(model, samples.numpy()))


if __name__ == "__main__":
    main()
