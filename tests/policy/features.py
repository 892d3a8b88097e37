"""Checks that one crate can be built and tested alone: `cargo test --package X` compiles no dependency anew.

Cargo chooses the features of a dependency by what is built together. So each crate of the workspace depends on
`crates/workspace-hack`, which turns on the features that any of them needs. This compares what `cargo tree` says of
each crate with its tests, and of the programs, with what it says of the whole workspace. With `--write`, it writes
the manifest of that crate.

`cargo hakari` does the same, but takes minutes to compile.
"""

import json
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent.parent.parent
MANIFEST = WORKSPACE / "crates/workspace-hack/Cargo.toml"
# Generates code, and is built alone anyway (`make proto`). No program needs the dependencies that it has of its own.
APART = {"clew-proto-codegen"}
# Other targets only add crates that are theirs. What they share has the features of this one.
TARGET = "x86_64-unknown-linux-gnu"
TESTS = "normal,build,dev"
PROGRAMS = "normal,build"
FOR_TARGET = "normal,dev,no-proc-macro"

HEAD = """\
# Written by `make features`. Why it exists: docs/dev/decisions/012-one-profile-one-feature-set.md.
[package]
name = "clew-workspace-hack"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[lints]
workspace = true
"""


def tree(selection, edges):
    """What is built: (name, version, features) of each crate of the registry, once for each set of features."""
    command = ["cargo", "tree", "--locked", *selection, "--target", TARGET]
    form = ["--edges", edges, "--prefix", "none", "--format", "{p}|{f}"]
    ran = subprocess.run([*command, *form], cwd=WORKSPACE, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"error: the dependencies are not known; is Cargo.lock up to date?\n{ran.stderr}")
    built = set()
    for line in filter(None, ran.stdout.splitlines()):
        package, features = line.removesuffix(" (*)").split("|")
        name, version = package.split()[:2]
        if f"({WORKSPACE}" not in package:
            built.add((name, version.removeprefix("v"), features))
    return built


def members():
    """Names of the crates that can be built alone."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    ran = subprocess.run(command, cwd=WORKSPACE, capture_output=True, text=True, check=True)
    return sorted({package["name"] for package in json.loads(ran.stdout)["packages"]} - APART)


def compiled_anew():
    """What a crate alone would compile anew: (name, version) of a dependency -> names of such crates."""
    of_workspace = tree(["--workspace"], TESTS)
    selections = [(("--workspace",), PROGRAMS), (("--package", "clew"), PROGRAMS)]
    selections += [(("--package", name), TESTS) for name in members()]
    with ThreadPoolExecutor() as pool:
        trees = list(pool.map(lambda selection: tree(*selection), selections))
    anew = defaultdict(set)
    for (selection, _), built in zip(selections, trees):
        for name, version, _ in built - of_workspace:
            anew[name, version].add(selection[-1])
    return anew


def requirement(version):
    """The versions of Cargo that are compatible with this one and with the older ones like it."""
    major, minor, patch = version.split("+")[0].split(".")[:3]
    return major if major != "0" else f"0.{minor}" if minor != "0" else f"0.0.{patch}"


def dependencies(packages, built):
    """Lines of a table of dependencies: the packages with all features that they are built with."""
    features_of = defaultdict(set)
    for name, version, features in built:
        if (name, version) in packages:
            features_of[name, version] |= set(filter(None, features.split(",")))
    names = [name for name, _ in features_of]
    for (name, version), features in sorted(features_of.items()):
        compatible = requirement(version)
        listed = ", ".join(f'"{feature}"' for feature in sorted(features - {"default"}))
        is_default = "default" in features
        key, renamed = name, ""
        if names.count(name) > 1:
            key, renamed = f"{name}-{compatible.replace('.', '_')}", f'package = "{name}", '
        plain = "" if is_default else ", default-features = false"
        chosen = f", features = [{listed}]" if listed else ""
        yield f'{key} = {{ {renamed}version = "{compatible}"{plain}{chosen} }}'


def manifest(packages, of_builds):
    """The manifest that gives these packages their features, and those `of_builds` also where only builds use them."""
    if not packages:
        return HEAD
    everything = tree(["--workspace"], TESTS)
    for_target = tree(["--workspace"], FOR_TARGET)
    of_programs = {row[:2] for row in tree(["--workspace", *(f"--exclude={name}" for name in APART)], FOR_TARGET)}
    for_builds = {row for row in everything if row not in for_target or row[:2] in of_builds}
    sections = {
        "dependencies": {row for row in for_target if row[:2] in of_programs},
        "build-dependencies": for_builds,
    }
    text = HEAD
    for section, built in sections.items():
        text += f"\n[{section}]\n" + "".join(line + "\n" for line in dependencies(packages, built))
    return text


def write():
    """Writes the manifest. More crates may differ once some are united, so it goes on until none does."""
    packages, of_builds, before = set(), set(), None
    while True:
        MANIFEST.write_text(manifest(packages, of_builds))
        subprocess.run(["cargo", "update", "--workspace", "--offline", "--quiet"], cwd=WORKSPACE, check=True)
        differing = set(compiled_anew())
        if not differing:
            break
        if differing == before and differing <= of_builds:
            sys.exit(f"error: the features of these cannot be united: {differing}")
        of_builds |= differing & packages
        packages |= differing
        before = differing
    print(f"{MANIFEST.relative_to(WORKSPACE)}: {len(packages)} crates")


def main():
    if sys.argv[1:] == ["--write"]:
        return write()
    anew = compiled_anew()
    for (name, version), alone in sorted(anew.items()):
        print(
            f"error: {name} {version} has other features for {', '.join(sorted(alone)[:3])} than for the workspace; "
            "run `make features`",
            file=sys.stderr,
        )
    print(f"{len(anew)} dependencies that one crate alone would compile anew")
    sys.exit(bool(anew))


if __name__ == "__main__":
    main()
