"""Makes what a release gives people who do not compile: a tarball and a Python wheel of a built program, with checksums
and a bill of materials. Run as `make dist`. The same program gives the same bytes.
"""

import argparse
import hashlib
import platform
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import prefix
from bill_of_materials import bill_of_materials
from linked import host, output_of
from platform_wheel import write_wheel
from tarball import write_tarball

SYSTEMS = {"linux": "linux", "darwin": "macos"}
MACHINES = {"arm64": "aarch64"}


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def make(out, program, model, is_quick):
    """Makes everything in the folder, which is emptied first."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = output_of(program, "--version").split()[1]
    machine = platform.machine()
    stem = f"clew-{version}-{MACHINES.get(machine, machine)}-{SYSTEMS[sys.platform]}"
    # When the sources were committed.
    moment = int(output_of("git", "log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as temporary:
        complete, small = Path(temporary) / "complete", Path(temporary) / "small"
        prefix.fill(complete, program, model)
        prefix.fill(small, program)
        bill = bill_of_materials(version, host(), sha256(complete / "bin/clew"), moment)
        (out / f"{stem}.cdx.json").write_text(bill)
        write_tarball(out / f"{stem}.tar.gz", complete, moment, level=1 if is_quick else 9)
        compression = zipfile.ZIP_STORED if is_quick else zipfile.ZIP_DEFLATED
        write_wheel(out, small, version, bill, moment, compression)
    made = sorted(out.iterdir())
    sums = "".join(f"{sha256(file)}  {file.name}\n" for file in made)
    (out / "SHA256SUMS").write_text(sums)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--clew", type=Path, required=True, help="the built program")
    parser.add_argument("--model", type=Path, required=True, help="folder of the embedding model")
    parser.add_argument("--quick", action="store_true", help="compress little, for tests")
    arguments = parser.parse_args()
    begun = time.monotonic()
    for file in make(arguments.out, arguments.clew.absolute(), arguments.model, arguments.quick):
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {file}")
    print(f"made in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
