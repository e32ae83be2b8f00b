"""Uniform quantisers with zero point 0, as the QONNX operator Quant defines them."""
from dataclasses import dataclass

import numpy as np

ROUNDING = {"ROUND": np.rint, "FLOOR": np.floor}  # rint: half to even


@dataclass
class Quant:
    scale: np.ndarray  # scalar, or shaped to broadcast along the output channels
    bits: int
    signed: int = 0
    narrow: int = 0
    mode: str = "ROUND"

    def limits(self):
        if self.signed:
            half = 2 ** (self.bits - 1)
            return -half + self.narrow, half - 1
        return 0, 2**self.bits - 1 - self.narrow

    def codes(self, x):
        return ROUNDING[self.mode](np.clip(x / self.scale, *self.limits()))

    def __call__(self, x):
        return self.codes(x) * self.scale

    def in_range(self, x):
        lo, hi = self.limits()
        return (x / self.scale >= lo - 0.5) & (x / self.scale <= hi + 0.5)


def best_scale(x, bits, signed=0, narrow=0, mode="ROUND", per_channel=False):
    """The Quant whose power-of-two scale gives the least squared error on x.

    Per channel means one scale for each index of axis 0 of x.
    """
    axes = tuple(range(1, x.ndim)) if per_channel else None
    scales, errors = 2.0 ** np.arange(-10, 3), []
    for s in scales:
        err = (Quant(s, bits, signed, narrow, mode)(x) - x) ** 2
        errors.append(err.sum(axes, keepdims=per_channel))
    return Quant(scales[np.argmin(errors, axis=0)], bits, signed, narrow, mode)
