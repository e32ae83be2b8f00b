"""Prints the tables that crates/num/tests/it/minifloat.rs compares with.

    python make_tables.py > tables.txt

Needs numpy and ml_dtypes. Every line is `FORMAT KIND DATA`:

* `decode`: the bits of the f32 value of every code; NaN is 7fc00000.
* `encode`: the code of every input of `inputs` below; the sign of NaN is that of the format's
  canonical NaN, numbers above the range are what ml_dtypes makes of them.

Formats of more than 8 bits have `decode-sha256` and `encode-sha256`, over the same lists as
little-endian u32, and `decode-sample` and `encode-sample`, every 4099th entry.

ml_dtypes has no tf32. Its codes are the upper 19 bits of an f32, and its rounding is done here by
dividing by the step, exactly, in f64.
"""

import hashlib

import ml_dtypes
import numpy as np

NAN_F32 = 0x7FC00000
SAMPLE = 4099


class Format:
    """A format of ml_dtypes or numpy, kept in an unsigned integer of `storage` bits."""

    def __init__(self, dtype, width, largest, nan):
        self.dtype, self.width, self.largest, self.nan = np.dtype(dtype), width, largest, nan
        self.storage = np.uint16 if width > 8 else np.uint8

    def decode(self, codes):
        return codes.astype(self.storage).view(self.dtype).astype(np.float32)

    def encode(self, values):
        codes = values.astype(self.dtype).view(self.storage).astype(np.uint32)
        codes &= (1 << self.width) - 1
        if self.nan is not None:
            nans = np.isnan(self.decode(codes))
            codes[nans] = self.nan
        return codes


class Tf32:
    width, largest, nan = 19, 0x3FBFF, 0x3FE00

    def decode(self, codes):
        return (codes.astype(np.uint32) << 13).view(np.float32)

    def encode(self, values):
        wide = values.astype(np.float64)
        finite = np.where(np.isfinite(wide), wide, 0.0)
        exponent = np.maximum(np.frexp(finite)[1] - 1, -126)
        step = np.ldexp(1.0, exponent - 10)
        # numpy rounds to nearest, ties to even; above the range the f32 is infinite.
        rounded = np.where(np.isfinite(wide), np.copysign(np.round(finite / step) * step, wide), wide)
        codes = rounded.astype(np.float32).view(np.uint32) >> 13
        codes[np.isnan(wide)] = self.nan
        return codes


FORMATS = {
    "f16": Format(np.float16, 16, 0x7BFF, 0x7E00),
    "bf16": Format(ml_dtypes.bfloat16, 16, 0x7F7F, 0x7FC0),
    "tf32": Tf32(),
    "e5m2": Format(ml_dtypes.float8_e5m2, 8, 0x7B, 0x7E),
    "e4m3": Format(ml_dtypes.float8_e4m3fn, 8, 0x7E, 0x7F),
    "e5m2fnuz": Format(ml_dtypes.float8_e5m2fnuz, 8, 0x7F, 0x80),
    "e4m3fnuz": Format(ml_dtypes.float8_e4m3fnuz, 8, 0x7F, 0x80),
    "e3m2": Format(ml_dtypes.float6_e3m2fn, 6, 0x1F, None),
    "e2m3": Format(ml_dtypes.float6_e2m3fn, 6, 0x1F, None),
    "e2m1": Format(ml_dtypes.float4_e2m1fn, 4, 0x07, None),
}


def inputs(form):
    """Every finite number, every midpoint (that above the largest number included) and the f32
    numbers beside each midpoint; then extremes; then all of these with the other sign."""
    numbers = form.decode(np.arange(form.largest + 1)).astype(np.float64)
    steps = np.diff(numbers)
    middles = (numbers + np.append(steps, steps[-1]) / 2).astype(np.float32)
    bits = middles.view(np.uint32)
    per_number = [numbers.astype(np.float32).view(np.uint32), bits - 1, bits, bits + 1]
    extremes = np.array([1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000], np.uint32)
    if form.nan is not None:
        extremes = np.append(extremes, np.array([NAN_F32, 0x7F800001], np.uint32))
    positive = np.append(np.stack(per_number, 1).reshape(-1), extremes)
    return np.append(positive, positive | np.uint32(1 << 31)).view(np.float32)


def show(name, kind, values, width):
    values = values.astype("<u4")
    digits = (width + 3) // 4
    text = lambda part: " ".join(f"{value:0{digits}x}" for value in part)
    if FORMATS[name].width <= 8:
        print(name, kind, text(values))
    else:
        print(name, f"{kind}-sha256", hashlib.sha256(values.tobytes()).hexdigest())
        print(name, f"{kind}-sample", text(values[::SAMPLE]))


def main():
    np.seterr(all="ignore")
    for name, form in FORMATS.items():
        values = form.decode(np.arange(1 << form.width))
        bits = np.where(np.isnan(values), np.uint32(NAN_F32), values.view(np.uint32))
        show(name, "decode", bits, 32)
        show(name, "encode", form.encode(inputs(form)), form.width)
    scales = np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    bits = np.where(np.isnan(scales), np.uint32(NAN_F32), scales.view(np.uint32))
    print("e8m0 decode", " ".join(f"{value:08x}" for value in bits))


if __name__ == "__main__":
    main()
