"""Runs programs that Quincunx wrote in da4ml 0.6.0 and alkaid 0.8.2, and compares the outputs.

    python tests/peers/predict.py DIR

DIR holds X_in.npy, X_out.npy (what Quincunx computes) and programs of case X: X.da4ml.json,
X.alkaid.json, X.alkaid.json.gz and X.pipeline.json (one of alkaid), each perhaps absent. Both tools are used as installed from PyPI.
Prints how many programs each of them ran, and a line for every difference; exit 1 if there is one.
"""

import pathlib
import sys

import numpy as np


def da4ml(path):
    from da4ml.types import CombLogic

    return CombLogic.load(path)


def alkaid(path):
    from alkaid.types import CombLogic

    return CombLogic.load(path)


def alkaid_pipeline(path):
    from alkaid.stateful import FSM

    return FSM.load(path)


FORMS = {
    ".da4ml.json": da4ml,
    ".alkaid.json": alkaid,
    ".alkaid.json.gz": alkaid,
    ".pipeline.json": alkaid_pipeline,
}


def compare(case, folder, form, load):
    """None where the outputs are equal, else what is wrong."""
    inputs = np.load(folder / f"{case}_in.npy")
    expected = np.load(folder / f"{case}_out.npy")
    try:
        program = load(folder / f"{case}{form}")
        if form == ".pipeline.json":
            found = program.predict(inputs)["model_out"]
        else:
            found = np.asarray(program.predict(inputs, n_threads=1))
    except Exception as error:  # whatever the tool objects to
        return f"{type(error).__name__}: {error}"
    found = found.reshape(expected.shape)
    wrong = np.argwhere(found != expected)
    if len(wrong) == 0:
        return None
    sample, output = wrong[0]
    return (
        f"{len(wrong)} of {expected.size} numbers differ, first sample {sample}, output {output}: "
        f"{found[sample, output]!r}, expected {expected[sample, output]!r}"
    )


def main():
    folder = pathlib.Path(sys.argv[1])
    counts = dict.fromkeys(FORMS, 0)
    failed = False
    for path in sorted(folder.glob("*_in.npy")):
        case = path.name.removesuffix("_in.npy")
        for form, load in FORMS.items():
            if not (folder / f"{case}{form}").exists():
                continue
            counts[form] += 1
            problem = compare(case, folder, form, load)
            if problem:
                failed = True
                print(f"{case}{form}: {problem}")
    print(" ".join(f"{form}={count}" for form, count in counts.items()))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
