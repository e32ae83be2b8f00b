"""Functions written in simple operators, as exporters do for opsets that lack them, for
tests/families.rs: spelled.py FOLDER

Files are those of families.py. The family of a case names what all of its nodes are when the functions are
recognised: `LayerNormalization`, also with a factor per row behind it, or `Gelu` (which has both forms); or
it is `none`, for formulas that differ from these in one thing.
"""
import sys
from pathlib import Path

import numpy as np
from families import Maker, Random, evaluate, is_finite, write

VARIANTS = 40


def commuted(random, make, op, a, b):
    return make(op, a, b) if random.chance() else make(op, b, a)


def number(random, value):
    """A constant, with or without axes."""
    return np.full(random.choose((), (1,)), value, np.float32)


def layer_norm(random, make, wrong):
    shape = random.shape(2, 4, extent=6)
    rank = len(shape)
    first = random.int(1, rank - 1)
    shape[-1] += 1
    x = make.fed(random.real(*shape))
    axes = list(range(first, rank))
    if wrong == "axes":
        shape[0] += 1
        axes = list(range(first))
    kept = [axis - rank if random.chance() else axis for axis in axes]
    mean = lambda v: make("ReduceMean", v, axes=kept, keepdims=1)
    centred = make("Sub", x, mean(x))
    again = make("Sub", x, mean(x)) if random.chance(0.3) else centred
    if wrong == "centre":
        again = x
    power = np.float32(3 if wrong == "power" else 2)
    squares = make("Mul", again, again) if random.chance(0.3) and wrong != "power" else make("Pow", again, power)
    if wrong == "power":
        squares = make("Abs", squares)
    epsilon = number(random, random.choose(1e-5, 1e-12, 1e-3))
    if wrong == "epsilon":
        epsilon = np.abs(random.real(shape[-1])) + np.float32(0.01)
    variance = commuted(random, make, "Add", mean(squares), epsilon)
    deviation = make("Sqrt", variance) if random.chance(0.7) else make("Pow", variance, np.float32(0.5))
    if random.chance(0.7):
        y = make("Div", centred, deviation)
    else:
        y = commuted(random, make, "Mul", centred, make("Reciprocal", deviation))
    row = lambda: random.real(*[1] * random.int(0, first), *shape[first:])
    scale, bias = random.choose((True, True), (True, True), (True, False), (False, True), (False, False))
    if wrong == "row":
        y = commuted(random, make, "Mul", y, random.real(*shape[:first], *[1] * (rank - first)))
    elif scale:
        y = commuted(random, make, "Mul", y, row())
    if bias and wrong != "row":
        y = commuted(random, make, "Add", y, row())
    outputs = [y]
    if wrong == "reader":
        outputs.append(random.choose(centred, squares, deviation))
    return random.choose(9, 12, 14, 16), outputs


def gelu(random, make, wrong):
    x = make.fed(random.real(*random.shape(1, 4)))
    off = lambda name, value: number(random, value * (1.001 if wrong == name else 1.0))
    if random.chance():
        inside = make("Div", x, off("slope", np.sqrt(2))) if random.chance() else \
            commuted(random, make, "Mul", x, off("slope", np.sqrt(0.5)))
        curve = make("Erf", inside)
    else:
        if random.chance():
            cube = make("Pow", x, np.float32(3))
        else:
            cube = commuted(random, make, "Mul", make("Mul", x, x), x)
        cubic = commuted(random, make, "Mul", cube, off("slope", 0.044715))
        inside = commuted(random, make, "Mul", commuted(random, make, "Add", x, cubic),
                          number(random, np.sqrt(2 / np.pi)))
        curve = make("Tanh", inside)
    half = off("half", 0.5)
    if random.chance(0.2):
        gate = commuted(random, make, "Add", commuted(random, make, "Mul", curve, off("half", 0.5)),
                        number(random, 0.5))
        outputs = [commuted(random, make, "Mul", x, gate)]
    else:
        gate = commuted(random, make, "Add", curve, off("one", 1.0))
        form = random.int(0, 3)
        if form == 0:
            y = commuted(random, make, "Mul", commuted(random, make, "Mul", x, gate), half)
        elif form == 1:
            y = commuted(random, make, "Mul", commuted(random, make, "Mul", x, half), gate)
        elif form == 2:
            y = commuted(random, make, "Mul", commuted(random, make, "Mul", gate, half), x)
        else:
            y = make("Div", commuted(random, make, "Mul", x, gate), np.float32(2.002 if wrong == "half" else 2))
        outputs = [y]
    if wrong == "reader":
        outputs.append(random.choose(curve, gate))
    return random.choose(9, 13, 16), outputs


CASES = [("LayerNormalization", layer_norm, [None]), ("Gelu", gelu, [None]),
         ("LayerNormalization+Mul", layer_norm, ["row"]),
         ("none", layer_norm, ["axes", "centre", "power", "epsilon", "reader"]),
         ("none", gelu, ["slope", "half", "reader"])]


def main(folder):
    lines = []
    for family, function, wrongs in CASES:
        for wrong in wrongs:
            for variant in range(VARIANTS if wrong is None else 8):
                random = Random(len(lines), variant)
                make = Maker()
                opset, outputs = function(random, make, wrong)
                model = make.model(opset, outputs)
                results = evaluate(model, make.inputs)
                if not is_finite(results):
                    continue
                case = f"{function.__name__}_{wrong or 'right'}_{variant:02}"
                write(folder, case, model, make.inputs, results)
                lines.append(f"{case} {family} 2e-5")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
