"""Measures how fast da4ml 0.6.0 and alkaid 0.8.2 run programs, in the terms of `bench dais:run`.

    python tests/peers/speed.py PROGRAM.json INPUTS.npy

PROGRAM.json is a program as either tool saves it; that of alkaid is an object, that of da4ml a list.
The samples are repeated up to 65,536. Prints operations and samples a second on one thread, the
median of five runs after one that is not counted.
"""

import json
import pathlib
import statistics
import sys
import time

import numpy as np

SAMPLES = 1 << 16


def main():
    path = pathlib.Path(sys.argv[1])
    inputs = np.load(sys.argv[2])
    inputs = np.resize(inputs, (SAMPLES, inputs.shape[1]))
    if isinstance(json.loads(path.read_text()), dict):
        from alkaid.types import CombLogic
    else:
        from da4ml.types import CombLogic
    program = CombLogic.load(path)
    program.predict(inputs, n_threads=1)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        program.predict(inputs, n_threads=1)
        seconds.append(time.perf_counter() - start)
    rate = SAMPLES / statistics.median(seconds)
    print(f"{len(program.ops) * rate:.3g} op/s, {rate:.3g} sample/s")


if __name__ == "__main__":
    main()
