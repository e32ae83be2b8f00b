"""PP-OCR's detector of text and classifier of orientation on all machines: run.py [work folder]"""
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common
import text

MODELS = {
    "ch_PP-OCRv4_det_infer.onnx": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
}
PAGE = {"page.png": "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3"}
NETWORKS = {"detector": "ch_PP-OCRv4_det_infer.onnx", "classifier": "ch_ppocr_mobile_v2.0_cls_infer.onnx"}
SHAPES = {"detector": (1, 3, *text.SIZE[::-1]), "classifier": (1, 3, *text.LINE[::-1])}
OPTIONS = {"tcu": ["--rounding", "free", "--rescale", "auto"]}
# What is not compiled since it takes minutes: the share of the multiplications that the target would hold.
SKIPPED = {("detector", "dais"): "0.01 %", ("detector", "scamp"): "0 %", ("detector", "dpas"): "2.56 %",
           ("classifier", "dais"): "3.07 %", ("classifier", "scamp"): "3.05 %", ("classifier", "dpas"): "3.05 %"}
EXPECTED = {"dais": [], "scamp": [], "dpas": [], "tcu": ["detector", "classifier"], "npu": ["detector", "classifier"]}
HELD = 0.5              # share of the multiplications from which on a machine gets a network
SAME = 0.5              # overlap from which on two boxes are of the same line
# Lines found, mean overlap, lines with the same orientation, pieces with the same orientation
LEAST = {"tcu": (14, 0.85, 14, 60), "npu": (11, 0.7, 11, 60)}
COLOURS = {"onnxruntime": "#00a000", "tcu": "#3080ff", "npu": "#ff3030"}


# Networks

def reference(path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda batch: np.concatenate([session.run(None, {"x": image[None]})[0] for image in batch])


def machine(program):
    def run(batch):
        [result] = program.run({"x": batch}).values()
        return result
    return run


def compile_all(work, paths, calibration):
    """Programs by network and target."""
    programs = {}
    for name, path in paths.items():
        data = work / f"{name}_calibration.npz"
        np.savez(data, x=calibration[name])
        shape = ["--input-shape", "x=" + "x".join(map(str, SHAPES[name]))]
        for target in common.TARGETS:
            if (name, target) not in SKIPPED:
                options = [*shape, *OPTIONS.get(target, [])]
                program = common.Program(work / f"{name}.{target}", target, path, options, data)
                programs[name, target] = program
                print(f"{name} on {target}: {program.share:.2%} of the multiplications", flush=True)
    return programs


# The application

def read(pages, detector, classifier):
    """For each page the probabilities of pixels, the boxes of lines, whether each is upside down, and the pieces.

    Most pieces of a line decide which way up it is. A page must have a line.
    """
    result = []
    for page, probabilities in zip(pages, detector(np.stack([text.page_numbers(page) for page in pages]))[:, 0]):
        found = text.lines(probabilities)
        pieces = text.piece_numbers(page, np.concatenate([boxes for _, boxes in found]))
        votes = np.split(classifier(pieces).argmax(axis=1), np.cumsum([len(boxes) for _, boxes in found])[:-1])
        result.append((probabilities, np.array([box for box, _ in found]),
                       np.array([vote.mean() > 0.5 for vote in votes]), pieces))
    return result


def judge(found, expected):
    """Lines that are found, their mean overlap, and lines with the same orientation."""
    overlaps, same = [], 0
    for (_, boxes, turned, _), (_, right_boxes, right_turned, _) in zip(found, expected):
        for box, way in zip(right_boxes, right_turned):
            candidates = text.overlap(box, boxes)
            best = candidates.argmax()
            if candidates[best] >= SAME:
                overlaps.append(candidates[best])
                same += turned[best] == way
    return len(overlaps), float(np.mean(overlaps)), int(same)


def draw(page, boxes, turned, colour):
    """The page twice as large, with boxes; an arrow says where the top of a line is."""
    page = page.convert("RGB").resize((2 * page.width, 2 * page.height), Image.Resampling.BILINEAR)
    pen = ImageDraw.Draw(page)
    for box, way in zip(2 * boxes, turned):
        pen.rectangle(tuple(box), outline=colour, width=2)
        x, low, high = box[2] - 8, box[1] + 4, box[3] - 4
        tip, foot = (high, low) if way else (low, high)
        pen.line((x, foot, x, tip), fill=colour, width=2)
        pen.polygon((x - 4, tip + (-5 if way else 5), x + 4, tip + (-5 if way else 5), x, tip), fill=colour)
    return page


def run_target(target, programs, pages, expected, classes, checks):
    """What this target reads, and a row of the table of results."""
    held = [name for name in NETWORKS if (name, target) in programs and programs[name, target].share >= HELD]
    if held != EXPECTED[target]:
        sys.exit(f"{target} holds {held}, expected {EXPECTED[target]}")
    if not held:
        return None, (target, "none", "", "", "", "", "")
    found = read(pages, *(machine(programs[name, target]) for name in NETWORKS))
    pieces = np.concatenate([page[3] for page in expected])
    agree = (machine(programs["classifier", target])(pieces).argmax(axis=1) == classes).sum()
    programs["detector", target].verify({"x": text.page_numbers(pages[0])[None]}, 1)
    programs["classifier", target].verify({"x": pieces}, 4)
    for name in held:
        exact, images = programs[name, target].bit_exact
        checks.at_least(f"{target}: share of bit exact images, {name}", exact / images, 1)
    total = sum(len(boxes) for _, boxes, _, _ in expected)
    extra = sum(text.overlap(box, right[1]).max(initial=0) < SAME
                for mine, right in zip(found, expected) for box in mine[1])
    count, mean, same = judge(found, expected)
    names = "lines found", "mean overlap", "lines with the same orientation", "pieces with the same orientation"
    for what, value, least in zip(names, (count, mean, same, agree), LEAST[target]):
        checks.at_least(f"{target}: {what}", value, least)
    return found, (target, ", ".join(held), f"{count} of {total}", extra, f"{mean:.3f}", f"{same} of {count}",
                   f"{agree} of {len(pieces)}")


def upside_down(page):
    return page.transpose(Image.Transpose.ROTATE_180)


def main():
    work, checks, page = common.work_folder("ocr"), common.Checks(), common.Page("Text")
    files = common.fetch(work / "rapidocr", "rapidocr-onnxruntime==1.4.4", MODELS)
    paths = {name: files[file] for name, file in NETWORKS.items()}
    [picture] = common.fetch(work / "pictures", "scikit-image==0.25.2", PAGE).values()
    upright = Image.open(picture).convert("RGB").resize(text.SIZE, Image.Resampling.BILINEAR)
    pages = [upright, upside_down(upright)]
    references = {name: reference(path) for name, path in paths.items()}
    expected = read(pages, *references.values())
    classes = np.concatenate([references["classifier"](page[3]).argmax(axis=1) for page in expected])
    others = [text.drawn_page(0), upside_down(text.drawn_page(1))]
    calibration = {"detector": np.stack([text.page_numbers(other) for other in others]),
                   "classifier": np.concatenate([page[3][:10] for page in read(others, *references.values())])}
    truth = np.repeat([0, 1], [len(page[3]) for page in expected])
    checks.at_least("onnxruntime: lines", sum(len(boxes) for _, boxes, _, _ in expected), 14)
    checks.at_least("onnxruntime: share of pieces with the right orientation", (classes == truth).mean(), 0.9)
    programs = compile_all(work, paths, calibration)
    rows, results = [], {"onnxruntime": expected}
    for target in common.TARGETS:
        found, row = run_target(target, programs, pages, expected, classes, checks)
        rows.append(row)
        print(*row, sep=" | ", flush=True)
        if found:
            results[target] = found
    right = (classes == truth).sum()
    page.text(f"A page of scikit-image, upright and upside down. onnxruntime finds {len(expected[0][1])} and "
              f"{len(expected[1][1])} lines. Of each it looks at several pieces, and says of {right} of {len(truth)} "
              "pieces rightly which way up they are; the arrows point to the tops of the lines.")
    for name, found in results.items():
        page.heading(name)
        page.grid(True)
        for title, picture, (probabilities, boxes, turned, _) in zip(("upright", "upside down"), pages, found):
            drawn = draw(picture, boxes, turned, COLOURS[name])
            drawn.save(work / f"{name}_{title.replace(' ', '_')}.png")
            page.picture(drawn, f"{title}: {len(boxes)} lines")
            page.picture(Image.fromarray((np.clip(probabilities, 0, 1) * 255).astype(np.uint8)), "probabilities")
        page.grid(False)
    page.heading("Agreement with onnxruntime")
    page.table(["target", "networks on the machine", "lines found", "others found", "mean overlap (IoU)",
                "lines with the same orientation", "pieces with the same orientation"], rows)
    page.heading("Programs")
    page.programs([(name, program) for (name, _), program in programs.items()])
    page.table(["network", "target", "not compiled: share of the multiplications that it would hold"],
               [(*key, share) for key, share in SKIPPED.items()])
    page.checks(checks)
    page.write(work)
    checks.finish()


if __name__ == "__main__":
    main()
