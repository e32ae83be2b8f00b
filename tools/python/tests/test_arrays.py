"""Arrays in and out: without copies where they fit, and with an answer or an error for all others."""

from __future__ import annotations

import gc
import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import quincunx
from quincunx import QuincunxError, _arrays

Images = npt.NDArray[np.float32]


def one_node(op: str, dtype: int = TensorProto.FLOAT, shape: tuple[int, ...] = (2, 3)) -> quincunx.Model:
    """A network of one operator from `x` to `y`."""
    ends = [helper.make_tensor_value_info(name, dtype, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", ends[:1], ends[1:])
    return quincunx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


NEGATED = one_node("Neg")


def address(array: npt.NDArray[Any]) -> int:
    """Where the elements lie."""
    place: int = array.__array_interface__["data"][0]
    return place


def test_dense_arrays_are_handed_over_where_they_lie(images: Images) -> None:
    _, dtype, shape, place, owner = _arrays.given("image", images)
    assert (dtype, shape, place) == ("float32", images.shape, address(images))
    assert owner is images


def test_the_library_reads_the_memory_of_the_array() -> None:
    # What is written to the array once the work has begun is seen by images that come later.
    array = np.zeros((1000, 2, 3), np.float32)

    def write(what: str, done: int, of: int) -> None:
        array[:] = 1

    outputs = NEGATED.run(array, threads=1, progress=write)["y"]
    assert outputs[-1].tolist() == [[-1, -1, -1]] * 2


def test_the_library_lets_go_of_arrays(images: Images, programs: dict[str, quincunx.Program]) -> None:
    array = images.copy()
    before = sys.getrefcount(array)
    outputs = programs["tcu"].run(array)
    NEGATED.run(np.zeros((2, 3), np.float32))
    gc.collect()
    assert sys.getrefcount(array) == before
    with pytest.raises(QuincunxError):
        programs["tcu"].run({"image": array, "labels": "?"})
    gc.collect()
    assert sys.getrefcount(array) == before and outputs["logits"].shape == (20, 10)


@pytest.mark.parametrize("count", [1, 20])
def test_results_lie_where_the_library_has_written_them(
    count: int, images: Images, programs: dict[str, quincunx.Program]
) -> None:
    core = programs["tcu"]._core
    given = _arrays.data(images[:count], core.inputs, 1)
    for name, array in core.run(given, False, False, None, None):
        result = _arrays.taken(array)
        assert name == "logits" and address(result) == array.__array_interface__["data"][0]
        assert result.flags.writeable and result.flags.aligned and not result.flags.owndata


@pytest.mark.parametrize("count", [1, 3])
def test_results_belong_to_the_caller(count: int) -> None:
    # The output of `Identity` has the numbers of the input, and its memory all the same is its own.
    same = one_node("Identity")
    array = np.ones((count, 2, 3), np.float32)
    outputs = same.run(array)["y"]
    outputs[...] = 7
    assert (array == 1).all() and (same.run(array)["y"] == 1).all()
    del same, array
    gc.collect()
    assert (outputs == 7).all()


VALUES = np.arange(12).reshape(2, 2, 3) % 5


@pytest.mark.parametrize(
    "array",
    [
        *(VALUES.astype(kind) for kind in "bBhHiIlLqQefd"),
        *(VALUES.astype(f">{kind}") for kind in ("i2", "u4", "i8", "f2", "f4", "f8")),
        *(
            VALUES.astype(kind)
            for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4)
        ),
        np.asfortranarray(VALUES.astype(np.float32)),
        np.repeat(VALUES, 2, axis=2)[..., ::2].astype(np.float32),
        np.flip(np.flip(VALUES, 1).astype(np.float32), 1),
        np.moveaxis(np.moveaxis(VALUES, 0, 2).astype(np.float64), 2, 0),
        np.frombuffer(b"?" + VALUES.astype(np.float32).tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 2, 3),
        VALUES.astype(np.float32).tolist(),
        VALUES.astype(np.float32).view(type("Own", (np.ndarray,), {})),
    ],
    ids=lambda array: str(getattr(array, "dtype", "list")),
)
def test_other_types_and_orders_are_converted(array: Any) -> None:
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    assert np.array_equal(NEGATED.run({"x": array})["y"], -VALUES.astype(np.float32))


def test_truth_values_and_broadcasts() -> None:
    truth = np.array([[True, False, True]] * 2)
    assert np.array_equal(NEGATED.run(truth)["y"], -truth.astype(np.float32))
    assert np.array_equal(one_node("Not", TensorProto.BOOL).run(truth)["y"], ~truth)
    wide = np.broadcast_to(np.float32(3), (4, 2, 3))
    assert np.array_equal(NEGATED.run(wide)["y"], -wide)


@pytest.mark.parametrize(
    ("onnx_type", "dtype"),
    [
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.INT8, np.int8),
        (TensorProto.INT64, np.int64),
    ],
)
def test_results_have_the_types_of_the_network(onnx_type: int, dtype: Any) -> None:
    array = np.array([[1, 2, -3], [0, 5, 7]], dtype)
    result = one_node("Neg", onnx_type).run(array)["y"]
    assert result.dtype == array.dtype and np.array_equal(result, -array) and result.flags.writeable


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.zeros((2, 3), np.complex64), "Q0811"),
        (np.zeros((2, 3), object), "Q0811"),
        (np.zeros((2, 3), "M8[s]"), "Q0811"),
        (np.zeros((2, 3), "m8[s]"), "Q0811"),
        (np.zeros((2, 3), "S3"), "Q0811"),
        (np.zeros((2, 3), "U3"), "Q0811"),
        (np.zeros((2, 3), [("a", "f4")]), "Q0811"),
        (np.zeros((2, 3), "V4"), "Q0810"),
        (np.zeros((2, 3), np.longdouble), "Q0811"),
        (np.ma.masked_array(np.zeros((2, 3)), mask=True), "Q0811"),
        ([[1, 2, 3], [4]], "Q0811"),
        (None, "Q0811"),
        (object(), "Q0811"),
        (b"bytes", "Q0811"),
        ({1, 2}, "Q0811"),
        (np.zeros((3, 2), np.float32), "Q0605"),
        (np.zeros((6,), np.float32), "Q0605"),
        (np.zeros((), np.float32), "Q0605"),
        (np.zeros((2, 2, 2, 3), np.float32), "Q0605"),
        (np.zeros((2, 0), np.float32), "Q0605"),
        (np.zeros((0, 2, 3), np.float32), "Q0605"),
        ({}, "Q0605"),
        ({"y": np.zeros((2, 3))}, "Q0811"),
        ({1: np.zeros((2, 3))}, "Q0811"),
        ("nothing.npz", "Q0602"),
        ("random:x", "Q0606"),
    ],
    ids=repr,
)
def test_what_cannot_be_used_has_a_code(array: Any, code: str) -> None:
    with pytest.raises(QuincunxError) as caught:
        NEGATED.run(array)
    assert caught.value.code == code and caught.value.exit_code in (2, 3, 74)


def test_names_are_checked(programs: dict[str, quincunx.Program], images: Images) -> None:
    with pytest.raises(QuincunxError) as caught:
        programs["tcu"].run({"imagee": images})
    assert caught.value.code == "Q0811" and caught.value.help == 'did you mean "image"?'
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "abc"]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "g", ends[:2], ends[2:])
    added = quincunx.load(helper.make_model(graph))
    assert added.run({"a": [1, 2], "b": [[3, 4]] * 1})["c"].tolist() == [4, 6]
    for wrong in ([1, 2], {"a": [1, 2]}, {"a": [1, 2], "bb": [1, 2]}, {"a": [[1, 2]] * 2, "b": [[1, 2]] * 3}):
        with pytest.raises(QuincunxError):
            added.run(wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_do_not_enter_machines(value: float, program: quincunx.Program) -> None:
    array = np.zeros((2, 1, 8, 8), np.float32)
    array[1, 0, 3, 3] = value
    with pytest.raises(QuincunxError) as caught:
        program.run(array)
    assert caught.value.code == "Q0505" and "image 1" in str(caught.value)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", 10**30])
def test_counts_are_checked(count: Any) -> None:
    array = np.zeros((2, 3), np.float32)
    for act in (lambda: NEGATED.run(array, threads=count), lambda: NEGATED.run("zeros", images=count)):
        with pytest.raises(QuincunxError) as caught:
            act()
        assert caught.value.code == "Q0811"


KINDS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.byte_string_dtypes(max_len=3),
)
SHAPES = st.one_of(
    st.just((2, 3)),
    st.integers(0, 3).map(lambda count: (count, 2, 3)),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)


@st.composite
def arrays(draw: st.DrawFn) -> npt.NDArray[Any]:
    """Arrays of any type, shape and order in memory, most of which fit."""
    array: npt.NDArray[Any] = draw(hnp.arrays(draw(KINDS), draw(SHAPES)))
    for axis in range(array.ndim):
        turn = draw(st.sampled_from(["", "flip", "stride", "fortran"]))
        if turn == "flip":
            array = np.flip(array, axis)
        elif turn == "stride":
            array = np.repeat(array, 2, axis)[(slice(None),) * axis + (slice(None, None, 2),)]
        elif turn == "fortran":
            array = np.asfortranarray(array)
    return array


@settings(derandomize=True, max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(arrays())
def test_any_array_gives_the_right_answer_or_an_error(array: npt.NDArray[Any]) -> None:
    fits = array.dtype.kind in "biuf" and array.shape[-2:] == (2, 3) and array.ndim in (2, 3)
    usable = fits and array.size > 0 and bool(np.isfinite(array).all())
    # Numbers enter only as what they are. Python compares integers with floats exactly, numpy does not.
    with np.errstate(over="ignore"):
        usable = usable and all(np.float32(n).item() == n for n in array.ravel().tolist())
    try:
        result = NEGATED.run(array)["y"]
    except QuincunxError as error:
        assert error.problems and not usable
        return
    with np.errstate(over="ignore", invalid="ignore"):
        expected = -array.astype(np.float32)
    assert fits and array.size
    np.testing.assert_array_equal(result, expected if len(array) > 1 or array.ndim == 2 else expected[0])
