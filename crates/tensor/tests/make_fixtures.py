"""Writes the files in fixtures/ with numpy, in every form that read_npy understands.

Usage: python3 make_fixtures.py
"""
import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

FOLDER = Path(__file__).parent / "fixtures"
COUNTING = np.arange(24).reshape(2, 3, 4)


def save(name, array, version=None):
    with open(FOLDER / f"{name}.npy", "wb") as file:
        npy.write_array(file, array, version)


def main():
    FOLDER.mkdir(exist_ok=True)
    for kind in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]:
        save(f"{kind}_little", COUNTING.astype("<" + kind))
    for kind in ["i2", "u4", "i8", "f4", "f8"]:
        save(f"{kind}_big", COUNTING.astype(">" + kind))
        save(f"{kind}_columns", np.asfortranarray(COUNTING.astype("<" + kind)))
    save("u1_columns", np.asfortranarray(COUNTING.astype("u1")))
    save("bool", COUNTING % 3 == 0)
    save("scalar", np.array(1.5, "<f4"))
    save("empty", np.zeros((2, 0, 3), "<f4"))
    save("vector", np.arange(5, dtype="<i2"))
    save("version2", COUNTING.astype("<f4"), (2, 0))
    save("version3", COUNTING.astype("<f4"), (3, 0))
    save("f2_little", COUNTING.astype("<f2"))
    save("bad_c8", COUNTING.astype("<c8"))
    save("bad_text", np.array(["a", "bc"]))
    save("bad_struct", np.zeros(2, [("x", "<f4"), ("y", "<i4")]))
    np.save(FOLDER / "bad_object.npy", np.array([None, 1], object), allow_pickle=True)

    arrays = {"x": COUNTING.astype("<f4"), "labels": np.arange(3)}
    np.savez(FOLDER / "stored.npz", **arrays)
    np.savez_compressed(FOLDER / "deflated.npz", **arrays)
    with zipfile.ZipFile(FOLDER / "zip64.npz", "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            npy.write_array(content, array)
            with archive.open(name + ".npy", "w", force_zip64=True) as member:
                member.write(content.getvalue())


if __name__ == "__main__":
    main()
