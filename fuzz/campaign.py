#!/usr/bin/env python3
"""Runs the tests that damage files, bytes and programs, again and again under new seeds.

The test programs are built once, with overflow checks, and copied, so that work in the checkout does
not disturb the campaign. Ends with 1 if a test failed, which is named with its seed.
"""

import argparse, itertools, json, os, pathlib, shutil, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What the names of these tests begin with or contain.
NAMES = ["fuzz::", "arbitrary", "damaged", "corrupt"]
# One test program under one seed; the slowest needs a minute of an idle core.
LIMIT = 1800


def build(place: pathlib.Path) -> None:
    """Builds the test programs into a folder, each with the folder that it runs in."""
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    programs = {}
    for message in map(json.loads, lines.splitlines()):
        if message.get("executable") and message["profile"]["test"]:
            name = pathlib.Path(message["executable"]).name
            folder = pathlib.Path(message["manifest_path"]).parent
            shutil.copy(message["executable"], place / name)
            programs[name] = str(folder)
    (place / "programs.json").write_text(json.dumps(programs))


def run(program: pathlib.Path, folder: str, arguments: list[str], seed: int):
    """Output of a test program and the tests that failed; all it had, if it ended in another way."""
    environment = os.environ | {"PROPTEST_RNG_SEED": str(seed), "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, env=environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s", arguments
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.endswith("... FAILED")]
    return done.stdout, failed if failed or done.returncode == 0 else arguments


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="no new seed after this time (60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first of consecutive seeds")
    parser.add_argument("--threads", default="1", help="tests that run at the same time (1)")
    parser.add_argument("--built", action="store_true", help="take the programs of the last campaign")
    parser.add_argument("names", nargs="*", default=NAMES, help="parts of names of tests")
    options = parser.parse_args()
    place = ROOT / "target" / "campaign"
    if not options.built:
        build(place)
    programs = json.loads((place / "programs.json").read_text())
    # Programs without such a test are left out, and tests are named in full.
    tests = {}
    for program, folder in programs.items():
        listed = run(place / program, folder, ["--list", "--format", "terse", *options.names], 0)[0]
        names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        if names:
            tests[program] = names
    count = sum(map(len, tests.values()))
    print(f"{count} tests of {len(tests)} programs, {options.minutes:g} minutes", flush=True)
    start, failures, runs, seed = time.monotonic(), 0, 0, options.seed
    end = start + 60 * options.minutes
    rounds = ((seed, program) for seed in itertools.count(options.seed) for program in tests)
    for seed, program in rounds:
        if time.monotonic() > end:
            break
        folder, names = programs[program], tests[program]
        began = time.monotonic()
        output, failed = run(place / program, folder, [*names, "--exact", "--test-threads", options.threads], seed)
        runs += len(names)
        print(f"seed {seed}: {len(names)} of {program}, {time.monotonic() - began:.0f} s", flush=True)
        if failed:
            failures += len(failed)
            log = place / f"{seed}-{program}.log"
            log.write_text(output)
            print(f"FAILED {' '.join(failed)}, see {log}", flush=True)
            print(f"  (cd {folder} && PROPTEST_RNG_SEED={seed} cargo test {failed[0]})", flush=True)
    minutes = (time.monotonic() - start) / 60
    print(f"{seed - options.seed} seeds, {runs} runs of tests in {minutes:.1f} minutes, {failures} failed")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
