"""`compile`, `read`, and what a program says and does, on all machines."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from conftest import DIGITS, MACHINES, OPTIONS, ROOT, compiled

import quincunx
from quincunx import Program, QuincunxError, QuincunxWarning

FILE = DIGITS / "digits.onnx"
GOLDEN = ROOT / "tests" / "golden"

Images = npt.NDArray[np.float32]

# Kinds of files that cannot be written of these programs, and why.
REFUSED = {
    ("scamp", "csim"): "Q5004",
    ("dpas", "stream"): "Q6093",
    ("tcu", "samples"): "Q3084",
}

# Kinds of files that hold everything a program needs.
NATIVE = {"dais": "asm", "scamp": "asm", "dpas": "launch", "tcu": "tmodel", "npu": "bin"}


def same(one: dict[str, npt.NDArray[np.generic]], two: dict[str, npt.NDArray[np.generic]]) -> bool:
    """Equal names, types, shapes and bytes."""

    def facts(arrays: dict[str, npt.NDArray[np.generic]]) -> dict[str, object]:
        return {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}

    return facts(one) == facts(two)


def test_a_program_says_what_it_is(program: Program, model: quincunx.Model) -> None:
    assert program.inputs == model.inputs and program.outputs == ["logits"]
    (machine,) = program.machines
    assert machine[0] in MACHINES
    nodes = {row.node: row for row in program.plan}
    assert nodes["conv1"].place == "device" and nodes["conv1"].reason is None
    assert nodes["conv1"].macs == 2304 and nodes["conv1"].op == "Conv"
    assert all(row.reason for row in program.plan if row.place == "host")
    assert 0.2 < program.share <= 1.0 and (program.share == 1.0) == (machine[0] != "scamp")
    stats = program.stats
    assert stats.instructions > 0 and stats.bytes > 0
    assert (stats.cycles is None) == (machine[0] == "scamp")
    assert stats.cycles is None or stats.cycles > 0
    assert stats.seconds is None or stats.seconds > 0
    assert set(program.report.keys()) == {"rows", "summary"}
    assert [row["node"] for row in program.report.rows] == [row.node for row in program.plan]


def test_outputs_are_those_of_the_command_line(
    program: Program, images: Images, command: Callable[..., str], tmp_path: Path
) -> None:
    ((target, _),) = program.machines
    options = [f"--{name}={value}" for name, value in OPTIONS.get(target, {}).items()]
    data = ["--data", DIGITS / "test.npz", "--images", "20", "-o", tmp_path / "o.npz"]
    command("run", FILE, "--target", target, *options, *data)
    with np.load(tmp_path / "o.npz") as theirs:
        assert same(program.run({"image": images}), dict(theirs))


def test_a_program_without_roundings_gives_what_its_model_gives(images: Images) -> None:
    path = DIGITS / "digits_pow2.onnx"
    program, model = compiled("dais", path), quincunx.load(path)
    assert np.array_equal(program.run(images)["logits"], model.run(images)["logits"])
    own, theirs = program.run(images, layers=True), model.run(images, layers=True)
    shared = own.keys() & theirs.keys()
    assert len(shared) > 5 and all(np.array_equal(own[name], theirs[name]) for name in shared)


def test_threads_and_batches_give_the_same_bytes(program: Program, images: Images) -> None:
    one = program.run(images, threads=1)
    assert same(one, program.run(images, threads=2)) and same(one, program.run(images))
    alone = [program.run(image[None])["logits"] for image in images]
    assert one["logits"].tobytes() == np.concatenate(alone).tobytes()
    layers = program.run(images, threads=2, layers=True)
    assert same(layers, program.run(images, threads=1, layers=True)) and layers.keys() > one.keys()


def test_data_may_be_an_array_a_dict_a_file_or_made_up(program: Program, images: Images) -> None:
    expected = program.run(images)
    assert same(expected, program.run({"image": images}))
    assert same(expected, program.run({"image": images, "labels": np.zeros(20, int)}))
    assert same(expected, program.run(images.tolist()))
    from_file = program.run(DIGITS / "test.npz")["logits"]
    assert from_file.shape == (360, 10) and np.array_equal(from_file[:20], expected["logits"])
    assert program.run("random:7", images=3)["logits"].shape == (3, 10)
    assert same(program.run("zeros"), program.run(np.zeros((1, 1, 8, 8), np.float32)))


def test_time_is_that_of_the_command_line(
    program: Program, command: Callable[..., str], tmp_path: Path
) -> None:
    program.save(tmp_path / "p")
    theirs = json.loads(command("time", tmp_path / "p", "--format", "json"))
    timing = program.time()
    assert json.loads(timing.report.render("json")) == theirs
    assert timing.pages and all("<html" in str(page) for page in timing.pages.values())
    assert str(timing) == str(timing.report)


def test_programs_are_legal_and_exact(program: Program, model: quincunx.Model, images: Images) -> None:
    legal = program.verify()
    assert legal and legal.images == legal.bit_exact == 0
    told: list[tuple[str, int, int]] = []
    verdict = program.verify(
        model,
        images[:3],
        calibrate=DIGITS / "calib.npz",
        threads=2,
        progress=lambda *step: told.append(step),
    )
    assert verdict and verdict.images == verdict.bit_exact == 3 and told
    assert verdict.report.rows and "ok" in repr(verdict)


def test_what_is_illegal_is_told() -> None:
    program = quincunx.read(GOLDEN / "npu" / "fragments" / "e01_deadlock.asm.txt")
    with pytest.warns(QuincunxWarning, match="Q4021"):
        verdict = program.verify()
    assert not verdict and "failed" in repr(verdict)
    with pytest.raises(QuincunxError, match="Q4021"):
        program.time()


def test_folders_are_written_and_read(program: Program, images: Images, tmp_path: Path) -> None:
    program.save(tmp_path / "p")
    program.save(str(tmp_path / "p"))
    again = quincunx.read(tmp_path / "p")
    assert same(again.run(images), program.run(images))
    assert (again.stats, again.plan, again.machines) == (program.stats, program.plan, program.machines)
    assert again.report.rows == program.report.rows
    again.save(tmp_path / "q")
    files = [sorted(p.relative_to(tmp_path / n) for p in (tmp_path / n).rglob("*")) for n in "pq"]
    assert files[0] == files[1]
    assert all(
        (tmp_path / "p" / f).read_bytes() == (tmp_path / "q" / f).read_bytes()
        for f in files[0]
        if (tmp_path / "p" / f).is_file()
    )


def test_folders_are_those_of_the_command_line(
    program: Program, command: Callable[..., str], tmp_path: Path
) -> None:
    ((target, _),) = program.machines
    options = [f"--{name}={value}" for name, value in OPTIONS.get(target, {}).items()]
    command("compile", FILE, "--target", target, *options, "-o", tmp_path / "theirs")
    program.save(tmp_path / "own")
    for path in (tmp_path / "theirs").rglob("*"):
        if path.is_file():
            own = tmp_path / "own" / path.relative_to(tmp_path / "theirs")
            assert own.read_bytes() == path.read_bytes(), path.name


def test_all_kinds_of_native_files(program: Program) -> None:
    ((target, _),) = program.machines
    for kind, meaning in program.kinds.items():
        assert meaning
        code = REFUSED.get((target, kind))
        if code is None:
            files = program.emit(kind, stem="net")
            assert files and all(isinstance(file, bytes) and file for file in files.values())
            assert any(name.startswith(("net", "dais")) for name in files), kind
        else:
            with pytest.raises(QuincunxError) as caught:
                program.emit(kind)
            assert caught.value.code == code and caught.value.exit_code in (2, 4)


def test_native_files_are_read_again(program: Program, tmp_path: Path) -> None:
    ((target, machine),) = program.machines
    for name, contents in program.emit(NATIVE[target]).items():
        (tmp_path / name).write_bytes(contents)
    again = quincunx.read(tmp_path, target=target, arch=machine)
    assert again.machines == program.machines and again.plan == []
    assert again.stats.instructions == program.stats.instructions
    assert again.verify()
    figures = {row["name"]: row["value"] for row in again.report["summary"]}
    assert figures["target"] == target and figures["instructions"] == program.stats.instructions
    with pytest.raises(QuincunxError, match="Q0811"):
        again.save(tmp_path / "folder")


def test_files_of_other_tools_are_run() -> None:
    path = GOLDEN / "tcu" / "compiled" / "t_gemm_artya7100t_iso.tmodel"
    outputs = quincunx.read(path).run(GOLDEN / "tcu" / "t_gemm.csv")
    assert outputs["Identity"].shape == (2, 8) and outputs["Identity"][0, 0] == 0.94921875


def test_options_and_machines(images: Images) -> None:
    exact = quincunx.compile(DIGITS / "digits_pow2.onnx", "dais@wide", latency_cutoff=5, keep_layers=True)
    assert exact.machines == [("dais", "wide")]
    assert exact.stats.cycles is not None and exact.stats.cycles > 1
    expected = quincunx.load(DIGITS / "digits_pow2.onnx").run(images)
    assert np.array_equal(exact.run(images)["logits"], expected["logits"])
    small = quincunx.compile(FILE, "tcu", arch="bench8")
    assert small.machines == [("tcu", "bench8")]


MACHINE = """{
  "data_type": "FP16BP8", "array_size": 4, "dram0_depth": 65536, "dram1_depth": 65536,
  "local_depth": 1024, "accumulator_depth": 256, "simd_registers_depth": 1,
  "stride0_depth": 8, "stride1_depth": 8
}
"""


def test_a_machine_may_be_a_file_or_its_text(images: Images, tmp_path: Path) -> None:
    path = tmp_path / "small.tarch"
    path.write_text(MACHINE)
    one, two = (quincunx.compile(FILE, "tcu", arch=arch) for arch in (path, MACHINE))
    assert same(one.run(images), two.run(images)) and one.stats == two.stats
    assert one.stats.cycles != quincunx.compile(FILE, "tcu").stats.cycles


def test_a_split_over_machines(model: quincunx.Model, images: Images, tmp_path: Path) -> None:
    program = quincunx.compile(
        model,
        split="conv1@scamp, rest@npu",
        scamp={"effort": "fast"},  # type: ignore[arg-type]
        calibrate=DIGITS / "calib.npz",
    )
    assert [target for target, _ in program.machines] == ["scamp", "npu"]
    labels = np.load(DIGITS / "test.npz")["labels"][:20]
    outputs = program.run(images)
    assert np.mean(outputs["logits"].argmax(1) == labels) > 0.8
    assert same(outputs, program.run(images, threads=1))
    program.save(tmp_path / "p")
    assert same(quincunx.read(tmp_path / "p").run(images), outputs)
    assert len(program.emit("asm", stem="net")) == 2
    assert len(quincunx.read(tmp_path / "p").time().pages) == 2
    assert "scamp" in repr(program) and "npu" in repr(program)


def test_strict_and_verify_each(model: quincunx.Model) -> None:
    with pytest.raises(QuincunxError) as caught:
        quincunx.compile(model, "scamp", strict=True, effort="fast")
    places = [problem.place for problem in caught.value.problems]
    assert caught.value.exit_code == 4 and 'node "add3" (Add)' in places
    program = quincunx.compile(
        model, "npu", calibrate="random:3", images=4, verify_each=True, fold_batch_norm=False
    )
    assert program.machines == [("npu", "gemini")]


def test_runs_do_not_depend_on_runs_before(program: Program, images: Images) -> None:
    ((target, _),) = program.machines
    fresh = compiled(target)
    bad = images.copy()
    bad[3, 0, 0, 0] = np.nan
    first, layers = fresh.run(images), fresh.run(images, layers=True)
    for _ in range(2):
        with pytest.raises(QuincunxError):
            fresh.run(bad, threads=1)
        assert same(fresh.run(images[::-1].copy()[::-1]), first)
        assert same(fresh.run(images, strict_overflow=True), first)
        assert same(fresh.run(images, layers=True, threads=1), layers)
        assert same(fresh.run(images[7:8]), program.run(images[7:8]))


def test_registers_begin_with_their_start_values() -> None:
    program = quincunx.read(ROOT / "examples" / "dais" / "filter.json")
    samples = np.load(ROOT / "examples" / "dais" / "filter_in.npy")
    first = program.run(samples)
    assert first["out"].any() and same(first, program.run(samples)) and same(first, program.run(samples))


def test_overflow_is_told_or_refused() -> None:
    program = quincunx.compile(FILE, "tcu")
    loud = np.full((1, 1, 8, 8), 1e30, np.float32)
    with pytest.warns(QuincunxWarning, match="Q0521") as caught:
        program.run(loud)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(set(texts)) >= 2
    assert all(warning.filename == __file__ for warning in caught)
    # Nothing leaves its type here, so that the strict simulator is the same.
    exact = compiled("dais", DIGITS / "digits_pow2.onnx")
    assert same(exact.run("random:1", strict_overflow=True), exact.run("random:1"))


def test_warnings_are_told_once_each(model: quincunx.Model, images: Images) -> None:
    with pytest.warns(QuincunxWarning) as caught:
        quincunx.compile(model, "dais", calibrate=DIGITS / "calib.npz", effort="fast")
    assert [str(w.message).split("]")[0] for w in caught] == ["warning[Q1190"]
    assert caught[0].filename == __file__
    for act in (
        lambda: model.run({"image": images, "imagee": images}),
        lambda: quincunx.compile(model, "npu", calibrate={"image": images, "imagee": images}),
        lambda: quincunx.quantise(model, {"image": images, "imagee": images}),
        lambda: quincunx.compare(model, {"image": images, "imagee": images}, "tcu"),
        lambda: quincunx.report(model, {"image": images, "imagee": images}, "tcu"),
    ):
        with pytest.warns(QuincunxWarning, match="Q0607.*imagee") as caught:
            act()
        assert len(caught) == 1 and caught[0].filename == __file__
        assert 'did you mean "image"?' in str(caught[0].message)


def test_a_closed_program_is_not_used(model: quincunx.Model, images: Images, tmp_path: Path) -> None:
    with quincunx.compile(model, "tcu") as program:
        assert program.run(images)
    for act in (
        lambda: program.run(images),
        lambda: program.time(),
        lambda: program.verify(),
        lambda: program.save(tmp_path / "p"),
        lambda: program.emit("asm"),
        lambda: program.inputs,
        lambda: program.report,
        lambda: quincunx.report([program]),
    ):
        with pytest.raises(QuincunxError, match="is closed") as caught:
            act()
        assert caught.value.code == "Q0811" and caught.value.help
    assert repr(program) == "<Program, closed>"
    program.close()


@pytest.mark.parametrize(
    ("wrong", "code", "help"),
    [
        (lambda: quincunx.compile(FILE), "Q0811", None),
        (lambda: quincunx.compile(FILE, "tcu", split="rest@tcu"), "Q0811", None),
        (lambda: quincunx.compile(FILE, 3), "Q0811", "tcu@bench8"),  # type: ignore[arg-type]
        (lambda: quincunx.compile(FILE, "tcuu"), "Q0601", 'did you mean "tcu"?'),
        (lambda: quincunx.compile(FILE, "tcu@bench88"), "Q3001", 'did you mean "bench8"?'),
        (lambda: quincunx.compile(FILE, "dais", efort="max"), "Q0501", 'did you mean "effort"?'),
        (lambda: quincunx.compile(FILE, "dais", effort="maxx"), "Q0502", 'did you mean "max"?'),
        (lambda: quincunx.compile(FILE, "tcu", arch="nothing.tarch"), "Q0602", None),
        (lambda: quincunx.compile(FILE, "tcu", arch="{\n"), "Q3002", None),
        (lambda: quincunx.compile(FILE.read_bytes(), "npu"), "Q0608", None),
        (lambda: quincunx.compile(FILE, split="conv9@tcu, rest@npu"), "Q0656", 'did you mean "conv1"?'),
        (lambda: quincunx.compile(FILE, split="rest@tcu", effort="max"), "Q0811", "scamp="),
        (
            lambda: quincunx.compile(FILE, split="rest@tcu", tcuu={"timing": "x"}),  # type: ignore[arg-type]
            "Q0811",
            'did you mean "tcu"?',
        ),
        (lambda: quincunx.read(), "Q0811", None),
        (lambda: quincunx.read("/nothing"), "Q0602", None),
        (lambda: quincunx.read(FILE), "Q0611", None),
        (lambda: quincunx.compile(FILE, "tcu").emit("tpro"), "Q0614", 'did you mean "tprog"?'),
        (lambda: quincunx.compile(FILE, "tcu").verify(FILE), "Q0811", "give both"),
    ],
)
def test_what_is_wrong_has_a_code(wrong: Callable[[], object], code: str, help: str | None) -> None:
    with pytest.raises(QuincunxError) as caught:
        wrong()
    assert caught.value.code == code
    assert help is None or help in (caught.value.help or "")
    assert code in quincunx.explain(code)


def test_every_method_of_a_program_is_used_here() -> None:
    names = {name for name, _ in inspect.getmembers(Program) if not name.startswith("_")}
    assert names == {
        "close",
        "emit",
        "inputs",
        "kinds",
        "machines",
        "outputs",
        "plan",
        "report",
        "run",
        "save",
        "share",
        "stats",
        "time",
        "verify",
    }


@pytest.mark.parametrize("name", ["jet_mlp_6b", "lut_max_einsum", "conv_pool"])
def test_many_images_are_what_each_is(name: str) -> None:
    folder = ROOT / "tests" / "golden" / "dais" / "traced"
    program = quincunx.read(folder / f"{name}.json")
    samples = np.load(folder / f"{name}_in.npy").astype(np.float64)
    samples = samples.reshape(len(samples), -1)[:50]
    [expected] = program.run(samples[:1]).values()
    each = [next(iter(program.run(sample).values())) for sample in samples]
    for threads in (1, 2, 7):
        [found] = program.run(samples, threads=threads).values()
        assert found.shape == (50, *expected.shape) and np.array_equal(found, np.stack(each))
    counted: list[tuple[str, int, int]] = []
    program.run(samples, progress=lambda *step: counted.append(step))
    assert counted[-1] == ("run", 50, 50)
    # One that cannot be run is named, as if they had come one by one.
    samples[7, 0] = np.nan
    with pytest.raises(QuincunxError, match="image 7"):
        program.run(samples)


def test_many_images_beyond_the_type_are_told(images: npt.NDArray[np.float32]) -> None:
    program = compiled("dais", DIGITS / "digits_pow2.onnx")
    many = np.concatenate([images] * 3)
    [inside] = program.run(many).values()
    assert np.array_equal(inside[:20], program.run(images)["logits"])
    many[5] += 100
    with pytest.warns(QuincunxWarning, match="Q0521"):
        [beyond] = program.run(many).values()
    assert np.array_equal(beyond[6:], inside[6:]) and not np.array_equal(beyond[5], inside[5])
