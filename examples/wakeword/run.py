"""openWakeWord's networks on all machines: run.py [work folder]"""
import sys
import wave
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common
import speech

HERE = Path(__file__).resolve().parent
MODELS = {
    "melspectrogram.onnx": "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
    "embedding_model.onnx": "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f",
    "alexa_v0.1.onnx": "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e",
    "hey_rhasspy_v0.1.onnx": "5a9b3ed3be2910e35780e097905aa9f35a9c10038df47914cf2b3ec4d670f6ea",
}
ESPEAK = "08721baf27d13d461f6be6eed9a65277e70d68234ff484fd8b9897b222cdcb6d"

# Voice and sentence. Neither voices nor sentences of calibration and judgement are the same.
JUDGED = [("en-us+f2", "The alchemist forgot his lexicon."), ("en-us", "Alexa!"),
          ("en-gb-scotland", "Turn the light on."), ("en-us+f2", "Hey Rhasspy!"), ("en-us+f2", "What time is it?"),
          ("en-us+m7", "Alexa!"), ("en-gb-scotland", "That is all.")]
CALIBRATION = [("en-us+Annie", "Please close the window."), ("en", "Alexa, what is the weather?"),
               ("en-us+m3", "Hey Rhasspy, play some music."), ("en-us+m1", "Nothing is the matter.")]

WORDS = {"alexa": "#c22", "hey_rhasspy": "#26c"}
BLOCK = 1280            # samples between two scores: 80 ms
OVERLAP = 480           # samples before a block that its first frame needs
FRAMES, STEP = 76, 8    # frames of mel spectrogram of an embedding, and between two embeddings
EMBEDDINGS = 16         # embeddings of a score
THRESHOLD = 0.5         # of a score that is a detection
NEAR = 3                # blocks by which the same detection may begin earlier or later

# Options of the compiler. The 32-bit numbers and the scales are for the spectrum: see README.md.
OPTIONS = {
    ("melspectrogram", "tcu"): ["--arch", HERE / "tcu32.json", "--rounding", "free", "--rescale", "auto"],
    ("embedding_model", "tcu"): ["--rounding", "free", "--rescale", "auto"],
    ("embedding_model", "scamp"): ["--effort", "fast"],
    ("hey_rhasspy", "dais"): ["--effort", "fast"],
}
# What is not compiled since it takes minutes and the program would be of no use.
SKIPPED = {
    ("melspectrogram", "dais"): "8-bit grids cannot hold the powers of a spectrum",
    ("embedding_model", "dais"): "42 million multiplications do not fit; 1.22 % of them would",
    ("alexa", "dais"): "its logic has 193486 operations, 117 % of the LUTs of the largest part",
}
HELD = 0.5              # share of the multiplications from which on a machine gets a network
# The networks that each target must hold, and the least share of detections that agree.
EXPECTED = {
    "dais": ["hey_rhasspy"],
    "scamp": [],
    "dpas": ["alexa", "hey_rhasspy"],
    "tcu": ["melspectrogram", "embedding_model", "alexa", "hey_rhasspy"],
    "npu": ["embedding_model", "alexa", "hey_rhasspy"],
}
LARGEST_DIFFERENCE = {"dais": 0.4, "dpas": 0.4, "tcu": 0.5, "npu": 0.4}


# The application

def windows(rows, length, step):
    """Overlapping parts of the rows."""
    return np.stack([rows[i:i + length] for i in range(0, len(rows) - length + 1, step)]).astype(np.float32)


def stream(samples, networks):
    """Scores of the words, one for each block of samples as soon as there are enough; and what each network read.

    `networks` maps names to functions from a batch of inputs to a batch of outputs.
    """
    read = {"melspectrogram": windows(np.concatenate([np.zeros(OVERLAP), samples]), OVERLAP + BLOCK, BLOCK)}
    mel = networks["melspectrogram"](read["melspectrogram"]).reshape(-1, 32) / 10 + 2  # the scale of the embedding
    read["embedding_model"] = windows(mel, FRAMES, STEP)[..., None]
    embeddings = networks["embedding_model"](read["embedding_model"]).reshape(-1, 96)
    scores = {}
    for word in WORDS:
        read[word] = windows(embeddings, EMBEDDINGS, 1)
        scores[word] = networks[word](read[word]).reshape(-1)
    return scores, read


def detections(scores):
    """First and last block of each detection; gaps of up to `NEAR` blocks do not end it."""
    found = []
    for place in np.flatnonzero(scores > THRESHOLD):
        if found and place - found[-1][1] <= NEAR:
            found[-1][1] = int(place)
        else:
            found.append([int(place), int(place)])
    return found


def agreement(found, expected):
    """Detections of both that lie near each other, and all detections of either."""
    same = sum(any(abs(one[0] - other[0]) <= NEAR for other in found) for one in expected)
    return same, len(expected) + len(found) - same


# Networks

def reference(path):
    """The network in onnxruntime, image by image."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return name, lambda batch: np.concatenate([session.run(None, {name: image[None]})[0] for image in batch])


def machine(program, name):
    def run(batch):
        [result] = program.run({name: batch}).values()
        return result
    return run


def compile_all(work, paths, inputs, read):
    """Programs by network and target. `read` is what the networks read on the recording for calibration."""
    programs = {}
    for network, path in paths.items():
        calibration = work / f"{network}_calibration.npz"
        images = read[network][::5] if network == "embedding_model" else read[network]  # each takes 42 million products
        np.savez(calibration, **{inputs[network]: images})
        shape = ["--input-shape", f"input=1x{OVERLAP + BLOCK}"] if network == "melspectrogram" else []
        for target in common.TARGETS:
            if (network, target) not in SKIPPED:
                options = [*shape, *OPTIONS.get((network, target), [])]
                program = common.Program(work / f"{network}.{target}", target, path, options, calibration)
                programs[network, target] = program
                print(f"{network} on {target}: {program.share:.2%} of the multiplications", flush=True)
    return programs


def run_target(target, programs, references, inputs, samples, expected, checks):
    """Scores on this target, and a row of the table of results. What it does not hold runs in onnxruntime."""
    held = [network for network in references
            if (network, target) in programs and programs[network, target].share >= HELD]
    if held != EXPECTED[target]:
        sys.exit(f"{target} holds {held}, expected {EXPECTED[target]}")
    if not held:
        return None, (target, "none", "", "", "")
    networks = references | {network: machine(programs[network, target], inputs[network]) for network in held}
    scores, read = stream(samples, networks)
    for network in held:
        programs[network, target].verify({inputs[network]: read[network][40:]}, 4)
        checks.at_least(f"{target}: bit exact images of 4, {network}", programs[network, target].bit_exact[0], 4)
    same, either = np.sum([agreement(detections(scores[word]), detections(expected[word])) for word in WORDS], axis=0)
    difference = max(np.abs(scores[word] - expected[word]).max() for word in WORDS)
    checks.at_least(f"{target}: share of detections that agree", same / either, 1)
    checks.at_least(f"{target}: 1 - largest difference of a score", 1 - difference, 1 - LARGEST_DIFFERENCE[target])
    return scores, (target, ", ".join(held), f"{same} of {either}", f"{difference:.3f}",
                    "; ".join(f"{word} {scores[word].max():.3f}" for word in WORDS))


def write_wave(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(speech.RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def chart(page, scores, caption):
    first = (FRAMES // STEP + EMBEDDINGS) * BLOCK / speech.RATE
    times = [first + i * BLOCK / speech.RATE for i in range(len(scores["alexa"]))]
    page.figure(common.line_chart([(word, colour, scores[word]) for word, colour in WORDS.items()], times), caption)


def main():
    work, checks, page = common.work_folder("wakeword"), common.Checks(), common.Page("Wake words")
    files = common.fetch(work / "openwakeword", "openwakeword==0.5.1", MODELS)
    paths = {name.split("_v")[0].removesuffix(".onnx"): path for name, path in files.items()}
    speaker = speech.Speaker(common.unpack(work / "espeakng", "espeakng-loader==0.2.4", ESPEAK))
    samples = speech.recording(speaker, JUDGED, 1, BLOCK)
    write_wave(work / "recording.wav", samples)
    references, inputs = {}, {}
    for network, path in paths.items():
        inputs[network], references[network] = reference(path)
    _, read = stream(speech.recording(speaker, CALIBRATION, 2, BLOCK), references)
    expected, _ = stream(samples, references)
    programs = compile_all(work, paths, inputs, read)
    page.text(f"A recording of {len(samples) / speech.RATE:.1f} seconds: " + " ".join(text for _, text in JUDGED))
    page.heading("Scores over time")
    heard = ", ".join(f"{word} {len(detections(expected[word]))}" for word in WORDS)
    chart(page, expected, f"onnxruntime; detections: {heard}")
    checks.at_least("onnxruntime: times alexa is heard", len(detections(expected["alexa"])), 2)
    checks.at_least("onnxruntime: times hey_rhasspy is heard", len(detections(expected["hey_rhasspy"])), 1)
    rows = []
    for target in common.TARGETS:
        scores, row = run_target(target, programs, references, inputs, samples, expected, checks)
        rows.append(row)
        print(*row, sep=" | ", flush=True)
        if scores:
            chart(page, scores, f"{target}: {row[1]}; onnxruntime the rest")
    page.heading("Agreement with onnxruntime")
    page.table(["target", "networks on the machine", "detections that agree", "largest difference of a score",
                "highest scores"], rows)
    page.heading("Programs")
    page.programs([(network, program) for (network, _), program in programs.items()])
    page.table(["network", "target", "not compiled"], [(*key, reason) for key, reason in SKIPPED.items()])
    page.checks(checks)
    page.write(work)
    checks.finish()


if __name__ == "__main__":
    main()
