"""`load`, `quantise`, and what a model says and does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from conftest import DIGITS, ROOT

import quincunx
from quincunx import QuincunxError

FILE = DIGITS / "digits.onnx"
GRAPH_DEF = ROOT / "crates" / "import" / "tests" / "graphdef" / "matmul.pb"


class Serialised:
    """A message of protobuf, as far as the package looks at it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def SerializeToString(self) -> bytes:
        return self.path.read_bytes()


@pytest.mark.parametrize(
    "source",
    [FILE, str(FILE), FILE.read_bytes(), bytearray(FILE.read_bytes()), memoryview(FILE.read_bytes()), onnx.load(FILE)],
    ids=["PathLike", "str", "bytes", "bytearray", "memoryview", "ModelProto"],
)
def test_all_forms_of_a_model_are_the_same(source: quincunx.ModelLike, model: quincunx.Model) -> None:
    loaded = quincunx.load(source, name="digits")
    assert (loaded.inputs, loaded.outputs, loaded.nodes) == (model.inputs, model.outputs, model.nodes)
    assert loaded.format == model.format
    assert loaded.name == (str(FILE) if isinstance(source, (str, Path)) else "digits")


def test_a_graph_def_is_read_as_file_bytes_and_message() -> None:
    models = [quincunx.load(s) for s in (GRAPH_DEF, GRAPH_DEF.read_bytes(), Serialised(GRAPH_DEF))]
    assert {m.format for m in models} == {models[0].format} and "TensorFlow" in models[0].format
    outputs = [m.run("random:3") for m in models]
    assert all(o.keys() == outputs[0].keys() for o in outputs)
    for name, array in outputs[0].items():
        assert all(np.array_equal(o[name], array) for o in outputs)


def test_a_model_that_is_loaded_already_stays(model: quincunx.Model) -> None:
    assert quincunx.load(model) is model


def test_a_model_says_what_it_is(model: quincunx.Model) -> None:
    assert model.inputs == [quincunx.Spec("image", "float32", (1, 1, 8, 8))]
    assert model.outputs == [quincunx.Spec("logits", "float32", (1, 10))]
    assert model.nodes[0] == quincunx.Node("conv1", "Conv", "conv1_out", 2304)
    assert sum(node.macs for node in model.nodes) == 9280
    assert not model.is_quantised and quincunx.load(DIGITS / "digits_qdq.onnx").is_quantised


def test_parts_shapes_and_values(model: quincunx.Model, images: npt.NDArray[np.float32]) -> None:
    part = quincunx.load(FILE, outputs="pool1_out")
    assert [spec.name for spec in part.outputs] == ["pool1_out"]
    assert np.array_equal(part.run(images)["pool1_out"], model.run(images, layers=True)["pool1_out"])
    rest = quincunx.load(FILE, inputs=["pool1_out"], shapes={"pool1_out": (1, 4, 4, 4)})
    assert rest.inputs == [quincunx.Spec("pool1_out", "float32", (1, 4, 4, 4))]
    assert quincunx.load(FILE, shapes={"image": [3, 1, 8, 8]}).outputs[0].shape == (3, 10)
    assert quincunx.load(FILE, dims={"N": 4}).inputs[0].shape == (4, 1, 8, 8)
    fixed = quincunx.load(FILE, values={"image": images[0]})
    assert fixed.inputs == []
    np.testing.assert_allclose(fixed.run({})["logits"], model.run(images[:1])["logits"], rtol=1e-5)


def test_results_are_those_of_onnxruntime(model: quincunx.Model) -> None:
    expected = np.load(DIGITS / "expected.npz")
    logits = model.run(DIGITS / "test.npz")["logits"]
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected["logits"], rtol=1e-4, atol=1e-4)
    exact = quincunx.load(DIGITS / "digits_pow2.onnx").run(DIGITS / "test.npz")["logits"]
    assert np.array_equal(exact, expected["logits_pow2"])


def test_threads_give_the_same_bytes(model: quincunx.Model, images: npt.NDArray[np.float32]) -> None:
    one, two = (model.run(images, threads=n, layers=True) for n in (1, 2))
    assert list(one) == list(two) and set(one) >= {"image", "conv1_out", "logits"}
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)


def test_the_command_line_gives_the_same(
    model: quincunx.Model, command: Callable[..., str], tmp_path: Path
) -> None:
    command("run", FILE, "--data", DIGITS / "test.npz", "--images", "20", "-o", tmp_path / "o.npz")
    own = model.run(np.load(DIGITS / "test.npz")["image"][:20])
    assert np.load(tmp_path / "o.npz")["logits"].tobytes() == own["logits"].tobytes()


def test_a_model_is_written_and_read(model: quincunx.Model, images: npt.NDArray[np.float32], tmp_path: Path) -> None:
    path = tmp_path / "new" / "copy.onnx"
    model.save(path)
    model.save(path)
    assert path.read_bytes() == model.onnx() and [p.name for p in path.parent.iterdir()] == ["copy.onnx"]
    onnx.checker.check_model(onnx.load(path))
    again = quincunx.load(path)
    assert np.array_equal(again.run(images)["logits"], model.run(images)["logits"])


@pytest.mark.parametrize("method", ["mse", "min-max", "percentile"])
def test_a_model_is_quantised(
    method: str, model: quincunx.Model, images: npt.NDArray[np.float32], tmp_path: Path
) -> None:
    told: list[str] = []
    quantised, report = quincunx.quantise(
        model, DIGITS / "calib.npz", method=method, progress=lambda what, done, of: told.append(what)
    )
    assert quantised.is_quantised and told
    assert {"conv1", "fc2"} <= {row["layer"] for row in report.rows}
    labels = np.load(DIGITS / "test.npz")["labels"][:20]
    assert np.mean(quantised.run(images)["logits"].argmax(1) == labels) >= 0.9
    quantised.save(tmp_path / "q.onnx", "qdq")
    assert {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node} >= {"DequantizeLinear"}
    assert quincunx.load(tmp_path / "q.onnx").is_quantised


def test_quantising_like_the_command_line(
    model: quincunx.Model, command: Callable[..., str], tmp_path: Path
) -> None:
    widths = '[[layer]]\nname = "conv1"\nweights = 4\n'
    (tmp_path / "w.toml").write_text(widths)
    arguments = "--scheme pow2 --method percentile --percentile 99.5 --activations s8 --dialect qonnx"
    files = ["--calibrate", DIGITS / "calib.npz", "-o", tmp_path / "q.onnx", "--widths", tmp_path / "w.toml"]
    command("quantise", FILE, *arguments.split(), "--no-fold-batch-norm", *files)
    own, _ = quincunx.quantise(
        model,
        DIGITS / "calib.npz",
        scheme="pow2",
        widths=widths,
        method="percentile",
        percentile=99.5,
        activations="s8",
        dialect="qonnx",
        fold_batch_norm=False,
        threads=2,
    )
    theirs = quincunx.load(tmp_path / "q.onnx")
    assert own.nodes == theirs.nodes
    assert np.array_equal(own.run("random:1")["logits"], theirs.run("random:1")["logits"])


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: quincunx.load("nothing.onnx"), "Q0602"),
        (lambda: quincunx.load(b""), "Q0401"),
        (lambda: quincunx.load(b"abc\0def" * 9), "Q0401"),
        (lambda: quincunx.load(3), "Q0811"),
        (lambda: quincunx.load(None), "Q0811"),
        (lambda: quincunx.load(FILE, outputs=["pool1_outt"]), "Q0415"),
        (lambda: quincunx.load(FILE, dims={"M": 4}), "Q0415"),
        (lambda: quincunx.load(FILE, values={"imagee": 0.0}), "Q0415"),
        (lambda: quincunx.load(FILE, values={"image": "a"}), "Q0811"),
        (lambda: quincunx.load(FILE, shapes={"image": [-1]}), "Q0811"),
        (lambda: quincunx.load(FILE, shapes={"image": [2**31, 2**31, 8, 8]}), "Q0304"),
        (lambda: quincunx.load(FILE).onnx("onnx"), "Q0811"),
        (lambda: quincunx.load(FILE).save(DIGITS), "Q0518"),
        (lambda: quincunx.quantise(FILE, DIGITS / "calib.npz", scheme="affin-int8"), "Q0642"),
        (lambda: quincunx.quantise(FILE, DIGITS / "calib.npz", method="least"), "Q0811"),
        (lambda: quincunx.quantise(FILE, DIGITS / "calib.npz", activations="u4"), "Q0811"),
        (lambda: quincunx.quantise(FILE, DIGITS / "calib.npz", widths="x"), "Q0628"),
        (lambda: quincunx.quantise(FILE, {"imagee": np.zeros((1, 1, 8, 8))}), "Q0811"),
    ],
)
def test_what_is_wrong_has_a_code(wrong: Callable[[], object], code: str) -> None:
    with pytest.raises(QuincunxError) as caught:
        wrong()
    error = caught.value
    assert error.code == code and error.problems[0].severity == "error" and error.exit_code in (2, 3, 74)
    assert code in str(error) and code in str(error.problems[0])
    assert code in quincunx.explain(code)


def test_names_are_suggested_and_places_given() -> None:
    with pytest.raises(QuincunxError) as caught:
        quincunx.load(FILE, outputs=["pool1_outt"])
    assert caught.value.help == 'did you mean "pool1_out"?' and caught.value.place == str(FILE)


def test_every_method_of_a_model_is_used_here() -> None:
    names = {name for name, _ in inspect.getmembers(quincunx.Model) if not name.startswith("_")}
    assert names == {"format", "inputs", "is_quantised", "name", "nodes", "onnx", "outputs", "run", "save"}
