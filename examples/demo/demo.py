"""Lets Clew read the documentation of its own dependencies and asks questions about it.

The documents are on every machine that built Clew: the Markdown files and doc comments of the crates
in cargo's registry. `DEMO_SIZE=small` (the default) reads a dozen of them, about a million tokens;
`DEMO_SIZE=full` reads all, about twenty million. In a terminal it ends with a server whose console
a browser can open. With the argument `bench` it measures instead.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[2]
DATA = WORKSPACE / ".clew/demo"
SMALL = set(
    "burn clap clap_builder lancedb prost ractor rayon regex serde tokio tonic tracing".split()
)
QUESTIONS = [
    "What happens to a spawned task when its JoinHandle is dropped?",
    "What does a broadcast receiver see when it has lagged behind?",
    "In which priority does an actor listen to signals, stop, supervision events and messages?",
    "Why does the regex crate support neither look-around nor backreferences?",
    "What is the default limit on the size of a decoded gRPC message?",
    "How long does an egg have to boil until it is soft?",
]


def clew(*arguments, **options):
    """Runs the command line, and ends the demo if it fails."""
    default_model = str(WORKSPACE / ".cache/models/all-MiniLM-L6-v2")
    environment = {"CLEW_MODEL_DIR": default_model, **os.environ}
    environment.pop("CLEW_ENDPOINT", None)  # the demo opens its own data directory
    command = [os.environ["CLEW"], *arguments, "--data-dir", str(DATA)]
    if subprocess.run(command, env=environment, **options).returncode != 0:
        sys.exit("the demo ends here: see the error above")


def documented_crates():
    """The registry's folder, and the names of the folders of the wanted dependencies in it."""
    version = subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True)
    host = next(line.split()[1] for line in version.stdout.splitlines() if line.startswith("host:"))
    tree = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    ran = subprocess.run(tree, cwd=WORKSPACE, stdout=subprocess.PIPE, check=True)
    packages = [package for package in json.loads(ran.stdout)["packages"] if package["source"]]
    if os.environ.get("DEMO_SIZE", "small") == "small":
        packages = [package for package in packages if package["name"] in SMALL]
    folders = [Path(package["manifest_path"]).parent for package in packages]
    return folders[0].parent, sorted(folder.name for folder in folders)


def main():
    registry, crates = documented_crates()
    patterns = [f"{crate}/**/*.{kind}" for crate in crates for kind in ("md", "rs")]
    # Paths relative to the registry, so that a document is called `tokio-1.54.1/README.md`.
    patterns = [pattern for pattern in patterns if any(registry.glob(pattern))]
    if sys.argv[1:] == ["bench"]:
        clew("bench", "ingest", "--json", *patterns, cwd=registry)
        clew("bench", "search", "--json", "--corpus", "demo")
        return
    print(f"Reading the documentation of {len(crates)} crates into {DATA}", flush=True)
    clew("ingest", "--corpus", "demo", *patterns, cwd=registry)
    for question in QUESTIONS:
        print(f"\n> {question}", flush=True)
        clew("ask", "--corpus", "demo", question)
    print("\nRun `make demo` again: nothing is embedded a second time. Or ask something yourself:")
    program = os.path.relpath(os.environ["CLEW"])
    print(f"  {program} ask --data-dir {DATA} --corpus demo 'QUESTION'")
    if sys.stdout.isatty():
        print("\nOr see what it remembers, and why it answers so, in a browser: open")
        print("http://127.0.0.1:7422/corpora/demo/ask   (Ctrl-C ends the server)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            clew("serve")
    else:
        print("\nOr see what it remembers, and why it answers so, in a browser. Start the server:")
        print(f"  {program} serve --data-dir {DATA}")
        print("and open http://127.0.0.1:7422/corpora/demo/ask")


if __name__ == "__main__":
    main()
