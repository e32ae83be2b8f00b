"""A convolution network of PyTorch on two machines, with the names of its modules.

    pip install './tools/python[torch]'
    python from_torch.py

Nothing is trained: the weights are random.
"""

# %% A network.
import numpy as np
import torch

import quincunx


class Block(torch.nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv2(torch.relu(self.conv1(x))) + x)


torch.manual_seed(0)
network = torch.nn.Sequential()
network.add_module("stem", torch.nn.Conv2d(1, 8, 3, stride=2))
network.add_module("block", Block(8))
network.add_module("flat", torch.nn.Flatten())
network.add_module("logits", torch.nn.Linear(392, 10))


# %% The network as it is, then on two machines.
def main() -> None:
    samples = torch.randn(200, 1, 16, 16)
    model = quincunx.from_torch(network, samples[:1], input_names=["image"], output_names=["logits"])
    for node in model.nodes:
        print(f"{node.name:18} {node.op}")
    with torch.no_grad():
        expected = network.eval()(samples).numpy()
    images = samples.numpy()
    distance = np.abs(model.run(images)["logits"] - expected).max()
    print(f"largest distance to PyTorch: {distance:.1e}")
    assert distance < 1e-4
    for target in ("tcu", "npu"):
        program = quincunx.compile(model, target, calibrate=images)
        print(program)
        print(program.verify(model, images[:20], calibrate=images))


if __name__ == "__main__":
    main()
