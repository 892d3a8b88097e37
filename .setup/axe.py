"""Puts axe into `.cache/axe.min.js`, by which the test of the console checks pages for accessibility.

It comes with a Python package, so that the tests need no npm, and must have the SHA-256 below.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import checked

SCRIPT = Path(__file__).resolve().parent.parent / ".cache/axe.min.js"
# With axe 4.12.1. Its own code is not used.
PACKAGE = "axe-playwright-python==0.1.8"
INSIDE = "axe_playwright_python/axe.min.js"
SHA256 = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc"
PATIENCE_SECS = 120


def install():
    print("setup: fetching axe (0.2 MB) with pip", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        download += ["--no-deps", "--only-binary", ":all:", "--dest", folder, PACKAGE]
        try:
            subprocess.run(download, check=True, timeout=PATIENCE_SECS)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as package:
                content = package.read(INSIDE)
        except (OSError, KeyError, StopIteration, subprocess.SubprocessError, zipfile.BadZipFile) as error:
            sys.exit(f"setup: pip did not give {PACKAGE}: {error}")
    checked.put(SCRIPT, content, SHA256, "pip gave another axe than expected")


if not checked.is_there(SCRIPT, SHA256):
    install()
