"""Measures a GPU with models of real shapes, beside what the device could do at most.

    cargo build ... --message-format=json | python3 benches/gpu_day.py collect PROGRAMS
    python3 benches/gpu_day.py measure PROGRAMS OUT [--device cuda:0] [--steps NAME ...] [--tiny]

`collect` puts the programs that cargo has built into the folder PROGRAMS: the measuring program
`gpu_day` and the tests of `crates/model`. The folder can be carried to a machine with a GPU, which
needs no network and no compiler. `measure` makes models with random weights on the spot. OUT gets a
log of each step, `results.jsonl`, and the table `results.md`.

A step that is done is not done again, so that a run that was stopped goes on. Each step takes less
than ten minutes. With `--together 8`, on a device that holds all models at once, steps compile their
kernels side by side, and measure one after the other. `--tiny` measures tiny shapes only, to try the
script where there is no GPU. `make gpu-day` does both on this machine.

The tests read fixtures of the repository at the place where they were built.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Tests of `crates/model` that compute on the device that CLEW_TEST_DEVICE names.
TESTS = ["encoders", "decoders", "generation", "memorag"]
# Most seconds of a step.
LIMIT = 590


def steps(is_tiny):
    """Returns the steps in their order: name, and program with its arguments."""
    tests = [(f"test-{name}", [f"test-{name}", "--test-threads=1"]) for name in TESTS]
    if is_tiny:
        shapes = [
            ("encoder", ["minilm"], [[]]),
            ("decoder", ["decoder-tiny"], [[]]),
            ("memory", ["memory-tiny"], [["4", "3000"]]),
            ("training", ["memory-tiny"], [["2500"]]),
            ("exhaust", ["minilm"], [[]]),
        ]
    else:
        shapes = [
            ("encoder", ["minilm"], [[]]),
            ("decoder", ["decoder-0.5b", "decoder-7b"], [[]]),
            ("memory", ["memory-0.5b", "memory-7b"], [["4", "20000", "100000"], ["16", "100000"]]),
            ("training", ["memory-0.5b"], [["4096"]]),
            ("exhaust", ["minilm"], [[]]),
        ]
    measured = [(step, ["gpu_day", "{device}", step]) for step in ("roofline", "attention")]
    for step, models, variants in shapes:
        for model in models:
            for more in variants:
                own = [step] if step in ("training", "exhaust") else []
                name = "-".join([*own, model, *more[:1]])
                measured.append((name, ["gpu_day", "{device}", step, "{models}/" + model, *more]))
    if not is_tiny:
        million = ["gpu_day", "{device}", "memory", "{models}/memory-7b", "16", "1000000"]
        measured.append(("memory-7b-million", million))
    return tests + measured


def make_model(programs, folder):
    """Makes a model with random weights, if it is not there."""
    if (folder / "made").exists():
        return
    began = time.monotonic()
    subprocess.run([programs / "gpu_day", "make", folder.name, folder], check=True)
    (folder / "made").touch()
    print(f"made {folder.name} in {time.monotonic() - began:.0f} s", flush=True)


def run(name, command, environment, out, limit):
    """Runs a step. Returns its lines of JSON, or None if it failed."""
    log = out / f"{name}.log"
    began = time.monotonic()
    with log.open("wb") as errors:
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, timeout=limit, env=environment
            )
            status, output = done.returncode, done.stdout.decode()
        except subprocess.TimeoutExpired as late:
            status, output = "late", (late.stdout or b"").decode()
    with log.open("a") as more:
        more.write(output)
    seconds = time.monotonic() - began
    print(f"{name}: {'ok' if status == 0 else f'FAILED ({status})'} after {seconds:.1f} s", flush=True)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if status != 0:
        print(log.read_text(errors="replace")[-1500:], flush=True)
    return status == 0, seconds, lines


def table(results):
    """Returns the measurements as a table in Markdown."""
    rows = ["| step | what | measured |", "|---|---|---|"]
    for line in results:
        known = ("device", "step", "name")
        what = {key: value for key, value in line.items() if key not in known}
        is_given = lambda key: key in (
            "precision", "batch_tokens", "feeders", "streams", "prompt", "ratio", "tokens", "round"
        )
        given = ", ".join(f"{key} {value}" for key, value in what.items() if is_given(key))
        told = lambda value: f"{value:.4g}" if isinstance(value, float) else value
        found = ", ".join(f"{key} {told(value)}" for key, value in what.items() if not is_given(key))
        rows.append(f"| {line['name']} | {given} | {found} |")
    return "\n".join(rows) + "\n"


def collect(arguments):
    """Copies the programs that cargo's messages on standard input name, without debug information."""
    programs = arguments.programs
    programs.mkdir(parents=True, exist_ok=True)
    for line in sys.stdin:
        message = json.loads(line)
        built, target = message.get("executable"), message.get("target", {})
        name = target.get("name")
        is_test = "test" in target.get("kind", []) and name in TESTS
        if not built or "clew-model" not in message["package_id"] or not (is_test or name == "gpu_day"):
            continue
        program = programs / (f"test-{name}" if is_test else name)
        subprocess.run(["strip", "-o", program, built], check=True)
        print(f"{program}: {program.stat().st_size >> 20} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    actions = parser.add_subparsers(required=True)
    collecting = actions.add_parser("collect", help="copy programs that were built")
    collecting.add_argument("programs", type=Path)
    collecting.set_defaults(act=collect)
    measuring = actions.add_parser("measure", help="measure a device")
    measuring.add_argument("programs", type=Path)
    measuring.add_argument("out", type=Path)
    measuring.add_argument("--device", default="cuda:0")
    measuring.add_argument("--models", type=Path, help="where models are made; by default in OUT")
    measuring.add_argument("--steps", nargs="*", help="only steps whose names begin so")
    measuring.add_argument("--together", type=int, default=1, help="steps that warm up side by side")
    measuring.add_argument("--limit", type=int, default=LIMIT, help="most seconds of a step")
    measuring.add_argument("--tiny", action="store_true", help="tiny shapes only")
    measuring.set_defaults(act=measure)
    arguments = parser.parse_args()
    arguments.act(arguments)


def measure(arguments):
    """Runs the steps that are not done yet, and writes what they measured."""
    programs, out = arguments.programs.absolute(), arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    models = arguments.models.absolute() if arguments.models else out / "models"
    environment = os.environ | {"CLEW_TEST_DEVICE": arguments.device}
    environment["CLEW_GPU_TURN"] = str(out / "turn")
    if arguments.tiny:
        environment["CLEW_GPU_DRY_RUN"] = "1"
    is_wanted = lambda name: not arguments.steps or any(map(name.startswith, arguments.steps))
    due = [
        (name, command)
        for name, command in steps(arguments.tiny)
        if is_wanted(name) and not (out / f"{name}.done").exists()
    ]
    with ThreadPoolExecutor(arguments.together) as pool:
        given = {argument for _, command in due for argument in command}
        made = [argument.removeprefix("{models}/") for argument in given if "{models}/" in argument]
        list(pool.map(lambda model: make_model(programs, models / model), made))

        def done(step):
            name, command = step
            command = [part.format(device=arguments.device, models=models) for part in command]
            command[0] = programs / command[0]
            is_well, seconds, lines = run(name, command, environment, out, arguments.limit)
            if is_well:
                (out / f"{name}.done").write_text(f"{seconds:.1f} s\n")
            return is_well, [{"name": name, **line} for line in lines]

        ended = list(pool.map(done, due))
    with (out / "results.jsonl").open("a") as results:
        for _, lines in ended:
            results.writelines(json.dumps(line) + "\n" for line in lines)
    failed = [name for (name, _), (is_well, _) in zip(due, ended) if not is_well]
    results = out / "results.jsonl"
    measured = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    (out / "results.md").write_text(table(measured))
    print(table(measured))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
