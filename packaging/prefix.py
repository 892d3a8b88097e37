"""Fills a prefix with Clew: the program, completions, manual pages and licences, and its embedding model.

`make install` runs this on the folder to install to, and `make dist` on what goes into the tarball and the wheel.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

from linked import WORKSPACE, host
from notices import notices

# Shell -> where it looks for completions, below the prefix.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/clew",
    "zsh": "share/zsh/site-functions/_clew",
    "fish": "share/fish/vendor_completions.d/clew.fish",
}
MANUAL = "share/man/man1"
MODEL = "share/clew/model"
# Where the program looks for the script that fetches the model.
FETCH = "share/clew/fetch"
FETCH_FILES = [".setup/model.py", ".setup/model.txt", ".setup/model.sha256"]
DOCUMENTS = "share/doc/clew"
NOTICES = "THIRD-PARTY-NOTICES.txt"


def fill(prefix, program, model=None):
    """Fills the prefix; without a model, the program gets the script that fetches it."""
    installed = prefix / "bin/clew"
    installed.parent.mkdir(parents=True, exist_ok=True)
    # A running program cannot be overwritten.
    installed.unlink(missing_ok=True)
    subprocess.run(["strip", "-o", installed, program], check=True)
    installed.chmod(0o755)
    for shell, place in COMPLETIONS.items():
        ran = subprocess.run([program, "completions", shell], stdout=subprocess.PIPE, check=True)
        write(prefix / place, ran.stdout)
    subprocess.run([program, "man", "--out", prefix / MANUAL], check=True)
    for name in ("LICENSE", "README.md"):
        write(prefix / DOCUMENTS / name, (WORKSPACE / name).read_bytes())
    write(prefix / DOCUMENTS / NOTICES, notices(host()).encode())
    if model:
        installed = prefix / MODEL
        # The model to install may be the one that is installed.
        if installed.resolve() != model.resolve():
            shutil.rmtree(installed, ignore_errors=True)
            # Links are followed.
            shutil.copytree(model, installed)
    else:
        for name in FETCH_FILES:
            write(prefix / FETCH / Path(name).name, (WORKSPACE / name).read_bytes())


def write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--clew", type=Path, required=True, help="the built program")
    parser.add_argument("--model", type=Path, required=True, help="folder of the embedding model")
    arguments = parser.parse_args()
    fill(arguments.prefix, arguments.clew.absolute(), arguments.model)
    print(f"installed: {arguments.prefix}/bin/clew, with its model in {arguments.prefix}/{MODEL}")


if __name__ == "__main__":
    main()
