"""Handwritten digits on five machines: a table here, and a page for a browser.

    python quickstart.py [PAGE.html]
"""

import sys
from pathlib import Path

import numpy as np

import quincunx

DIGITS = Path(__file__).resolve().parents[1] / "digits"


def main(page: Path) -> None:
    model = quincunx.load(DIGITS / "digits.onnx")
    calibration = DIGITS / "calib.npz"
    print(model)

    # One machine: a program, what it answers, how long the machine takes, and whether all of it is right.
    test = np.load(DIGITS / "test.npz")
    program = quincunx.compile(model, "npu", calibrate=calibration)
    answers = program.run(test["image"])["logits"].argmax(axis=1)
    print(program)
    print(f"{np.mean(answers == test['labels']):.2%} right, {program.stats.seconds * 1e6:.2f} us an image")
    print(program.verify(model, test["image"][:20]))

    # All of them, judged on all images. str(compared) has more tables.
    compared = quincunx.compare(model, DIGITS / "test.npz", calibrate=calibration)
    for row in compared.rows:
        exact = f"{row['bit_exact']} of {row['images']} exact"
        print(f"{row['target']:6} {row['accuracy']:.2%}  {exact}  decided by {row['limit']}")

    # The same with timelines and feature maps.
    quincunx.report(model, DIGITS / "test.npz", calibrate=calibration).save(page)
    print(f"\n{page}: open it in a browser")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "digits.html"))
