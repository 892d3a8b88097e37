"""Collects the licences and notices of the crates in the program, which have to go wherever it goes."""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

from linked import linked_crates, output_of

# How names of such files begin, in any case.
BEGINNINGS = ("licen", "copying", "copyright", "notice", "unlicense", "authors")
RULE = "=" * 100

HEAD = """\
Clew is licensed under the Apache License, version 2.0. Its program has code of the crates below in it, and of Rust's
standard library (MIT OR Apache-2.0, https://www.rust-lang.org). Each text stands once, behind the crates that have it.
A crate whose licence says OR may be used under either.
"""
WITHOUT_FILE = """\
These crates have no file with their licence. They tell this of themselves:
"""


@cache
def notices(target):
    """The text of all notices for a program of the target."""
    linked = {(name, version) for _depth, name, version, _licence, _repository in linked_crates(target)}
    crates_of, without_file = defaultdict(list), []
    for package in packages(target):
        # Our own have no source.
        if (package["name"], package["version"]) not in linked or not package["source"]:
            continue
        crate = f"{package['name']} {package['version']} ({package['license']})"
        texts = texts_of(Path(package["manifest_path"]).parent)
        for text in texts:
            crates_of[text].append(crate)
        if not texts:
            authors = ", ".join(package["authors"]) or "its authors"
            without_file.append(", ".join(filter(None, [crate, f"by {authors}", package["repository"]])))
    parts = [HEAD]
    for text, crates in sorted(crates_of.items(), key=lambda row: (-len(row[1]), row[1], row[0])):
        parts.append("\n".join(sorted(crates)) + f"\n\n{text}\n")
    if without_file:
        parts.append(WITHOUT_FILE + "\n" + "\n".join(sorted(without_file)) + "\n")
    return f"\n{RULE}\n\n".join(parts)


def texts_of(folder):
    """The different texts of licences and notices in a crate's folder, without what only lays them out."""
    texts = set()
    for file in folder.iterdir():
        if file.is_file() and file.name.lower().startswith(BEGINNINGS):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            texts.add("\n".join(line.strip() for line in lines).strip())
    return texts - {""}


def packages(target):
    """What Cargo knows of every crate that can be in a program of the target."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(output_of(*command))["packages"]
