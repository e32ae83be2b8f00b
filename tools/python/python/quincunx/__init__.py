"""Networks in, programs for five machines out, checked by three judges.

>>> import quincunx
>>> model = quincunx.load("digits.onnx")
>>> program = quincunx.compile(model, "tcu", calibrate="calib.npz")
>>> outputs = program.run({"image": images})
>>> print(quincunx.compare(model, "test.npz"))

Functions have the names and options of the verbs of the command line.
"""

from ._arrays import ArrayLike, Data
from ._core import __version__
from ._errors import Problem, QuincunxError, QuincunxWarning
from ._frameworks import from_keras, from_torch
from ._model import Model, ModelLike, Node, Progress, Spec, load, quantise
from ._program import Option, Program, Row, Stats, Timing, Verdict, compile, read
from ._report import Page, Report
from ._sweep import Sweep, gather, stored, sweep
from ._verbs import compare, explain, isa, report, targets

__all__ = [
    "ArrayLike",
    "Data",
    "Model",
    "ModelLike",
    "Node",
    "Option",
    "Page",
    "Problem",
    "Program",
    "Progress",
    "QuincunxError",
    "QuincunxWarning",
    "Report",
    "Row",
    "Spec",
    "Stats",
    "Sweep",
    "Timing",
    "Verdict",
    "__version__",
    "compare",
    "compile",
    "explain",
    "from_keras",
    "from_torch",
    "gather",
    "isa",
    "load",
    "quantise",
    "read",
    "report",
    "stored",
    "sweep",
    "targets",
]
