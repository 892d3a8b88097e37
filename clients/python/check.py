"""Checks the package as its users get it.

    python check.py                  # with the oldest and the newest Python that are found
    python check.py --python python3.12 --python ~/bin/python3.14
    python check.py --integrations   # the modules for frameworks and engines as well

Builds the wheel and the source distribution, installs the wheel in fresh environments with the
oldest and the newest releases of its dependencies, and runs the tests in each against the program
that `PROGRAM_UNDER_TEST` names. Then checks types and style. Prints a table, and fails if anything
failed. Needs `uv`.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent
# Minor releases of Python 3 that are looked for.
MINORS = range(10, 20)
INTEGRATIONS = ("cocoindex", "haystack", "langchain", "llamaindex", "ray", "spark")
# Seconds that one step may take.
PATIENCE = 1800


@dataclass
class Step:
    """A step that was taken."""

    name: str
    versions: str
    seconds: float
    problem: str


class Check:
    """Takes steps and remembers how they ended."""

    def __init__(self, uv: str, folder: pathlib.Path) -> None:
        self._uv = uv
        self._folder = folder
        self.steps: list[Step] = []

    def build(self) -> pathlib.Path | None:
        """Builds both distributions and returns the wheel."""
        made = self._folder / "dist"
        if not self._step("build", "", [self._uv, "build", "--out-dir", str(made), str(ROOT)]):
            return None
        (wheel,) = made.glob("*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        expected = {"clew/__init__.py", "clew/py.typed", "clew/_proto/query_pb2.py"}
        strays = [name for name in names if not name.startswith(("clew/", "clew_memory-"))]
        if strays or not expected <= set(names):
            self.steps[-1].problem = f"the wheel has {strays} or lacks one of {sorted(expected)}"
            return None
        return wheel

    @staticmethod
    def dependencies(wheel: pathlib.Path) -> list[str]:
        """Returns what the wheel needs in every case. Named directly, so that the oldest releases
        of it can be asked for.
        """
        archive = zipfile.ZipFile(wheel)
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        needed = re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.MULTILINE)
        return [each for each in needed if "extra ==" not in each]

    def environment(
        self, name: str, python: str, resolution: str, *packages: str
    ) -> pathlib.Path | None:
        """Makes an environment with packages and returns its interpreter."""
        folder = self._folder / name.replace(" ", "-")
        interpreter = folder / "bin" / "python"
        make = [self._uv, "venv", "--quiet", "--python", python, str(folder)]
        # Without wheels, the oldest releases would be compiled for Pythons that came after them.
        install = [
            *(self._uv, "pip", "install", "--quiet", "--python", str(interpreter)),
            *("--only-binary", "grpcio", "--only-binary", "protobuf"),
            *("--resolution", resolution, *packages),
        ]
        is_made = self._step(f"{name}: install", "", make) and self._step(
            f"{name}: install", "", install
        )
        return interpreter if is_made else None

    def tests(self, name: str, interpreter: pathlib.Path) -> None:
        """Runs the tests in an environment."""
        script = (
            "import sys, importlib.metadata as m; print(sys.version.split()[0],"
            " *(f'{name} {m.version(name)}' for name in ('grpcio', 'protobuf')))"
        )
        versions = subprocess.run(
            [str(interpreter), "-c", script], capture_output=True, text=True, check=True
        ).stdout.strip()
        command = [str(interpreter), "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
        self._step(f"{name}: tests", versions, command)

    def types(self, name: str, interpreter: pathlib.Path, *files: str) -> None:
        """Checks types: of `files`, or of what the configuration names."""
        self._step(f"{name}: types", "mypy --strict", [str(interpreter), "-m", "mypy", *files])

    def style(self, name: str, interpreter: pathlib.Path) -> None:
        """Checks style and format."""
        ruff = [str(interpreter), "-m", "ruff"]
        self._step(f"{name}: style", "ruff check", [*ruff, "check", "--quiet"])
        self._step(f"{name}: format", "ruff format", [*ruff, "format", "--check", "--quiet"])

    def _step(self, name: str, versions: str, command: list[str]) -> bool:
        begun = time.monotonic()
        print(f"{name} …", flush=True)
        try:
            ended = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            told, problem = ended.stdout + ended.stderr, f"exit status {ended.returncode}"
            is_well = ended.returncode == 0
        except subprocess.TimeoutExpired:
            told, problem, is_well = "", f"took more than {PATIENCE} s", False
        if not is_well:
            print(told, file=sys.stderr)
        problem = "" if is_well else problem
        self.steps.append(Step(name, versions, time.monotonic() - begun, problem))
        return is_well


def pythons() -> list[str]:
    """Returns the Pythons on the path that work, the oldest first."""
    found = []
    for minor in MINORS:
        python = shutil.which(f"python3.{minor}")
        # A name may be there only to say that it is not installed, as the shims of pyenv do.
        works = python and subprocess.run(
            [python, "-c", f"import sys; assert sys.version_info[:2] == (3, {minor})"],
            capture_output=True,
            check=False,
        )
        if python and works and works.returncode == 0:
            found.append(python)
    return found


def python_files() -> list[str]:
    """Returns all files of the package, also those whose types need other packages."""
    folders = ("src/clew", "tests")
    return sorted(str(path) for each in folders for path in (ROOT / each).glob("*.py"))


def main() -> None:
    """Takes all steps and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--python", action="append", help="an interpreter, oldest first; may be repeated"
    )
    parser.add_argument(
        "--integrations", action="store_true", help="also check the modules for frameworks"
    )
    arguments = parser.parse_args()
    uv = shutil.which("uv") or sys.exit("expected `uv` on the path; `pip install uv` installs it")
    found = arguments.python or pythons() or sys.exit("expected a Python of at least 3.10")
    selected = list(dict.fromkeys([found[0], found[-1]])) if not arguments.python else found
    with tempfile.TemporaryDirectory() as folder:
        check = Check(uv, pathlib.Path(folder))
        if wheel := check.build():
            for python in selected:
                for resolution, word in (("lowest-direct", "oldest"), ("highest", "newest")):
                    name = f"{pathlib.Path(python).name} {word}"
                    packages = [str(wheel), *check.dependencies(wheel), "pytest>=8.0"]
                    made = check.environment(name, python, resolution, *packages)
                    if made:
                        check.tests(name, made)
            group = ["--group", f"{ROOT / 'pyproject.toml'}:lint"]
            if made := check.environment("lint", selected[-1], "highest", str(wheel), *group):
                check.types("lint", made)
                check.style("lint", made)
            if arguments.integrations:
                extras = f"{wheel}[{','.join(INTEGRATIONS)}]"
                group += ["--group", f"{ROOT / 'pyproject.toml'}:integrations"]
                name = "integrations"
                if made := check.environment(name, selected[-1], "highest", extras, *group):
                    check.tests(name, made)
                    check.types(name, made, *python_files())
    print()
    for step in check.steps:
        print(f"{step.name:36} {step.versions:44} {step.seconds:6.1f} s  {step.problem or 'ok'}")
    sys.exit(any(step.problem for step in check.steps))


if __name__ == "__main__":
    main()
