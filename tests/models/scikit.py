"""Trains small models of scikit-learn and exports them with skl2onnx as it is by default, for
tools/cli/tests/it/models.rs: scikit.py OUT

Every model is OUT/NAME.onnx with OUT/NAME.npz, what onnxruntime gives for the images of OUT/data.npz. Rows of
probabilities stand for the dictionaries that ZipMap makes of them.
"""
import sys
import warnings
from pathlib import Path

import numpy as np
import onnxruntime as ort
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

IMAGES = 20


def models(digits):
    """Names, models and what they learn."""
    large = (digits > 4).astype(int)
    yield "mlp", MLPClassifier((16,), max_iter=30, random_state=0), digits
    yield "scaled", make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=10, random_state=0)), digits
    yield "logistic", make_pipeline(Normalizer(), LogisticRegression(max_iter=50)), digits
    yield "logistic_two", LogisticRegression(max_iter=50), large
    yield "logistic_text", LogisticRegression(max_iter=50), np.array(["small", "large"])[large]
    yield "linear", LinearRegression(), np.stack([digits, large], 1)
    yield "forest", RandomForestClassifier(5, max_depth=6, random_state=0), digits
    yield "forest_two", RandomForestClassifier(5, max_depth=6, random_state=0), large
    yield "forest_regressor", RandomForestRegressor(5, max_depth=6, random_state=0), digits
    yield "boosting", GradientBoostingClassifier(n_estimators=4, random_state=0), large


def plain(name, value):
    """Labels as numbers and rows of probabilities."""
    if isinstance(value, list):
        return np.array([list(row.values()) for row in value], np.float32)
    labels = {"large": 0, "small": 1}
    return np.array([labels[label] for label in value]) if value.dtype == object or value.dtype.kind == "U" else value


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    out = Path(sys.argv[1])
    images, digits = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    np.savez(out / "data.npz", X=images[:IMAGES])
    for name, model, target in models(digits):
        exported = to_onnx(model.fit(images, target), images[:1]).SerializeToString()
        (out / f"{name}.onnx").write_bytes(exported)
        session = ort.InferenceSession(exported, providers=["CPUExecutionProvider"])
        values = session.run(None, {"X": images[:IMAGES]})
        np.savez(out / f"{name}.npz", **{o.name: plain(o.name, v) for o, v in zip(session.get_outputs(), values)})
