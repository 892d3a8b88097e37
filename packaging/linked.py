"""Tells which crates the program is linked of."""

import re
import subprocess
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent.parent
# `depth name v1.2.3 (where it comes from, unless the registry)|licence|repository (*)`
LINE = re.compile(r"(\d+)(\S+) v(\S+)(?: \(([^()]+)\))?\|(.*?)\|(.*?)(?: \(\*\))?")


def output_of(*command):
    return subprocess.run(command, cwd=WORKSPACE, stdout=subprocess.PIPE, text=True, check=True).stdout


def host():
    """The target that Rust compiles for on this machine."""
    lines = output_of("rustc", "-vV").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("host:"))


def linked_crates(target):
    """Lines of their tree: depth, name, version, licence and repository."""
    tree = ["cargo", "tree", "--locked", "--package", "clew", "--target", target]
    form = ["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "{p}|{l}|{r}"]
    for line in filter(None, output_of(*tree, *form).splitlines()):
        depth, name, version, _place, licence, repository = LINE.fullmatch(line).groups()
        # The old way to write OR.
        yield int(depth), name, version, re.sub(r" */ *", " OR ", licence), repository
