"""Compares Quincunx with da4ml 0.6.0 and alkaid 0.8.2 on about 500 matrices of sixteen families.

    python tests/peers/families.py --quincunx PATH [--effort default,max] [--seed 1] [--dir DIR]

The matrices are drawn by a seeded generator (rows are inputs of 8 signed bits). Each is solved with both
peers, as installed from PyPI, by the method pairs of their public solvers; of adders and of bits the
least of any run counts, each figure taken alone; and no run may be as good in one and better in the
other. Prints a table for every effort and the names of all matrices on which a peer is better; the exit
status is then 1, unless `--report` is given. `--dir` keeps
matrices and the peers' figures, which a second call uses again.
"""

import argparse
import hashlib
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from cmvm import alkaid, da4ml, measures

# Without and with bounds on the levels that decomposing the matrix may add.
FREE = ["wmc", "mc"]
BOUND = ["wmc-dc", "wmc-pdc", "mc-dc", "mc-pdc"]
# Up to this many weights all pairs of methods are tried.
SMALL = 100


def side(rng, most=40):
    """A size, mostly 4 to 24."""
    return int(rng.integers(25, most + 1) if most > 25 and rng.random() < 0.06 else rng.integers(4, min(most, 24) + 1))


def uniform(rng, bits, *shape):
    return rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)


def dense(rng, at):
    bits = (2, 4, 6, 8, 12)[at % 5]
    most = 40 if bits < 6 else 20
    return uniform(rng, bits, side(rng, most), side(rng, most))


def ternary(rng, at):
    return rng.integers(-1, 2, (side(rng), side(rng)))


def sparse(rng, at):
    shape = side(rng), side(rng)
    return uniform(rng, (4, 6, 8)[at % 3], *shape) * (rng.random(shape) < (0.1, 0.3)[at % 2])


def low_rank(rng, at):
    rank = 2 + at % 3
    return uniform(rng, 3, side(rng), rank) @ uniform(rng, 3, rank, side(rng))


def toeplitz(rng, at):
    rows, columns = side(rng, 24), side(rng, 24)
    taps = uniform(rng, (3, 4, 6, 8)[at % 4], rows + columns - 1)
    return taps[np.arange(rows)[:, None] - np.arange(columns) + columns - 1]


def circulant(rng, at):
    size = side(rng, 24)
    taps = uniform(rng, (2, 4, 6, 8)[at % 4], size)
    return taps[(np.arange(size)[:, None] - np.arange(size)) % size]


def convolution(rng, at):
    """Filters of 3x3: all weights of one place, or one filter at all places of an image."""
    bits = (2, 4, 6, 8)[at // 2 % 4]
    if at % 2:
        return uniform(rng, bits, 9 * int(rng.integers(1, 5)), int(rng.integers(2, 17)))
    size = int(rng.integers(4, 7))
    places = [(y, x) for y in range(size - 2) for x in range(size - 2)]
    result = np.zeros((size, size, len(places)), np.int64)
    taps = uniform(rng, bits, 3, 3)
    for column, (y, x) in enumerate(places):
        result[y : y + 3, x : x + 3, column] = taps
    return result.reshape(size * size, -1)


def cosines(rng, at):
    """Rounded transforms of kinds II and IV."""
    size, scale = side(rng, 24), 1 << int(rng.integers(2, 11))
    n, k = np.arange(size)[:, None] + 0.5, np.arange(size) + 0.5 * (at % 2)
    return np.rint(scale * np.cos(np.pi / size * n * k))


def powers(rng, at):
    shape = side(rng), side(rng)
    power = rng.choice([-1, 1], shape) << rng.integers(0, 8, shape)
    power = power * (rng.random(shape) < (0.3, 0.7)[at % 2])
    return np.where(rng.random(shape) < 0.15, uniform(rng, 6, *shape), power)


def repeated(rng, at):
    """Columns that are others again, negated or doubled."""
    rows, columns = side(rng), side(rng)
    pool = uniform(rng, (3, 4, 6, 8)[at % 4], rows, max(2, columns // 3))
    picks = pool[:, rng.integers(0, pool.shape[1], columns)]
    return picks * rng.choice([-2, -1, 1, 1, 2, 4], columns)


def column(rng, at):
    return uniform(rng, (3, 4, 6, 8, 10, 12)[at % 6], int(rng.integers(4, 65)), 1)


def row(rng, at):
    return uniform(rng, (4, 6, 8, 10, 12)[at % 5], 1, int(rng.integers(4, 41)))


def oblong(rng, at):
    long, short = int(rng.integers(20, 41)), int(rng.integers(2, 7))
    kernel = uniform(rng, (2, 4, 6, 8)[at // 2 % 4], long, short)
    return kernel.T if at % 2 else kernel


def heavy_tailed(rng, at):
    return np.clip(np.rint(rng.standard_t(1.5, (side(rng), side(rng))) * (1 + at % 4)), -2048, 2047)


def windows(rng, at):
    """Running sums, sums of neighbours, triangular windows and repeated running sums."""
    rows = side(rng)
    distance = np.arange(rows) - np.arange(rows)[:, None]
    wide = int(rng.integers(2, rows + 1))
    kinds = [
        distance >= 0,
        (distance >= 0) & (distance < wide),
        np.maximum(0, wide - np.abs(distance)),
        np.maximum(0, distance + 1),
    ]
    stride = int(rng.integers(1, 3))
    return kinds[at % 4][:, ::stride].astype(np.int64)


def blocks(rng, at):
    parts = [uniform(rng, (3, 4, 6, 8)[at % 4], *rng.integers(2, 9, 2)) for _ in range(int(rng.integers(2, 5)))]
    result = np.zeros(np.sum([part.shape for part in parts], 0), np.int64)
    y = x = 0
    for part in parts:
        result[y : y + part.shape[0], x : x + part.shape[1]] = part
        y, x = y + part.shape[0], x + part.shape[1]
    return result


FAMILIES = [
    *(dense, ternary, sparse, low_rank, toeplitz, circulant, convolution, cosines),
    *(powers, repeated, column, row, oblong, heavy_tailed, windows, blocks),
]


def make(seed, count):
    """The matrices by name; those of a family do not depend on the other families."""
    kernels = {}
    for number, family in enumerate(FAMILIES):
        for at in range(count):
            rng = np.random.default_rng([seed, number, at])
            kernel = np.zeros((1, 1))
            while not kernel.any():
                kernel = family(rng, at)
            kernels[f"{family.__name__}_{at:02}"] = np.ascontiguousarray(kernel, np.int32)
    return kernels


def pairs(kernel):
    if kernel.size <= SMALL:
        return [(a, b) for a in FREE + BOUND for b in ["auto"] + FREE + BOUND]
    return [(a, b) for a in FREE for b in ["auto"] + FREE] + [(a, "auto") for a in BOUND]


def best(kernel):
    """Adders and bits of the runs of both peers whose product is the matrix, without those that others beat."""
    exact = np.ascontiguousarray(kernel, np.float32)
    found = []
    for first, second in pairs(kernel):
        methods = {"method0": first, "method1": second}
        runs = [da4ml(exact, adder_size=size, **methods) for size in (1, -1)] + [alkaid(exact, **methods)]
        for stages in runs:
            if np.array_equal(np.linalg.multi_dot([np.eye(len(exact))] + [s.kernel for s in stages]), exact):
                found.append(measures(stages))
    return sorted(f for f in set(found) if not any(beats(g, f) for g in found))


def beats(one, other):
    """As good in adders and bits, and better in one of them."""
    return all(a <= b for a, b in zip(one, other)) and any(a < b for a, b in zip(one, other))


def peers(kernels, store, processes):
    """The peers' figures by name; `store` has those of matrices that were measured before."""
    known = json.loads(store.read_text()) if store.exists() else {}
    keys = {name: hashlib.sha256(repr(k.tolist()).encode()).hexdigest() for name, k in kernels.items()}
    new = [name for name in kernels if keys[name] not in known]
    with multiprocessing.Pool(processes) as pool:
        for name, figures in zip(new, pool.imap(best, [kernels[name] for name in new])):
            known[keys[name]] = figures
    store.write_text(json.dumps(known))
    return {name: known[key] for name, key in keys.items()}


def quincunx(binary, folder, effort):
    """Adders, bits and seconds by name."""
    command = [binary, "bench", "dais:cmvm", "--dir", folder, "--effort", effort, "--repeat", "1", "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = {}
    for line in json.loads(done.stdout)["rows"]:
        found.setdefault(line["name"], {})[line["metric"]] = line["value"]
    return {name: [int(f["adders"]), int(f["bits"]), f["seconds"]] for name, f in found.items()}


def table(theirs, ours):
    """Lines of a table with a row for every family, and those for matrices that a peer solves better."""
    lines = [
        "| family | matrices | adders, peers | ours | bits, peers | ours | peer better: adders | bits | both "
        "| seconds | longest |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    least = {name: [min(figures) for figures in zip(*runs)] for name, runs in theirs.items()}
    beaten = {name: any(beats(run, ours[name][:2]) for run in runs) for name, runs in theirs.items()}
    for family in [f.__name__ for f in FAMILIES] + ["all"]:
        names = [name for name in theirs if family in ("all", name.rpartition("_")[0])]
        a, b = (np.array([figures[name] for name in names]) for figures in (least, ours))
        cells = [len(names)]
        cells += [f"{int(v):,}" for f in (0, 1) for v in (a[:, f].sum(), b[:, f].sum())]
        cells += [int((a[:, f] < b[:, f]).sum()) for f in (0, 1)]
        cells.append(sum(beaten[name] for name in names))
        cells += [f"{b[:, 2].sum():.1f}", f"{b[:, 2].max():.2f}"]
        lines.append("| " + " | ".join([family.replace("_", " ")] + [str(c) for c in cells]) + " |")
    lost = [name for name in theirs if any(t < o for t, o in zip(least[name], ours[name]))]
    described = [f"* {n}: adders and bits {theirs[n]} peers, {ours[n][:2]} ours" for n in lost]
    return lines, described


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quincunx", required=True, help="the binary")
    parser.add_argument("--effort", default="default", help="efforts, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-family", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2, help="of the peers")
    parser.add_argument("--dir", type=pathlib.Path, help="keeps matrices and the peers' figures here")
    parser.add_argument("--output", type=pathlib.Path, help="also write the tables to this file")
    parser.add_argument("--report", action="store_true", help="exit with 0 even if a peer is better")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.dir or pathlib.Path(temporary)
        (folder / "matrices").mkdir(parents=True, exist_ok=True)
        for path in (folder / "matrices").glob("*.npy"):
            path.unlink()
        kernels = make(args.seed, args.per_family)
        for name, kernel in kernels.items():
            np.save(folder / "matrices" / f"{name}.npy", kernel)
        theirs = peers(kernels, folder / "peers.json", args.processes)
        text, any_lost = "", False
        for effort in args.effort.split(","):
            lines, lost = table(theirs, quincunx(args.quincunx, folder / "matrices", effort))
            part = [f"`--effort {effort}`, seed {args.seed}", "", *lines, ""]
            part += [f"A peer is better on {len(lost)} matrices.", "", *lost, ""]
            text += "\n".join(part) + "\n"
            print("\n".join(part), flush=True)
            any_lost |= bool(lost)
    if args.output:
        args.output.write_text(text)
    sys.exit(int(any_lost and not args.report))


if __name__ == "__main__":
    main()
