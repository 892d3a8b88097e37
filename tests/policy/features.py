"""Checks that one crate can be built and tested alone: `cargo test --package X` compiles no dependency anew.

Cargo chooses the features of a dependency by what is built together, apart for what runs in programs and for what
runs while they are compiled. So each crate of the workspace depends on `crates/workspace-hack`, which turns on the
features that any of them needs. This compares what Cargo would compile for each crate with its tests, and for the
programs, with what it would compile for the whole workspace. With `--write`, it writes the manifest of that crate.

`cargo hakari` does the same, but takes minutes to compile.
"""

import json
import os
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
PROGRAMS = ("build", "--bins", "--workspace", *(f"--exclude={name}" for name in sorted(APART)))
SECTIONS = {"dependencies": TARGET, "build-dependencies": None}

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


def compiled(action, *selection):
    """What Cargo would compile of the registry: (name, version, platform) -> features. Programs have a platform."""
    # Cargo prints what it would do only if it may use unstable options. Nothing is compiled with them.
    command = ["cargo", action, *selection, "--locked", "--target", TARGET, "--unit-graph", "-Zunstable-options"]
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
    ran = subprocess.run(command, cwd=WORKSPACE, env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"error: the dependencies are not known; is Cargo.lock up to date?\n{ran.stderr}")
    features_of = {}
    for unit in json.loads(ran.stdout)["units"]:
        source, _, package = unit["pkg_id"].partition("#")
        if source.startswith("registry+") and unit["target"]["kind"] != ["custom-build"]:
            name, version = package.split("@")
            features_of[name, version, unit["platform"]] = frozenset(unit["features"])
    return features_of


def of_workspace():
    """What Cargo would compile for all crates and all their tests."""
    return compiled("test", "--workspace")


def members():
    """Names of the crates that can be built alone."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    ran = subprocess.run(command, cwd=WORKSPACE, capture_output=True, text=True, check=True)
    return sorted({package["name"] for package in json.loads(ran.stdout)["packages"]} - APART)


def compiled_anew():
    """What a crate alone would compile anew: (name, version, platform) of a dependency -> names of such crates."""
    known = of_workspace()
    selections = [PROGRAMS, ("build", "--package", "clew"), *(("test", "--package", name) for name in members())]
    with ThreadPoolExecutor() as pool:
        plans = list(pool.map(lambda selection: compiled(*selection), selections))
    anew = defaultdict(set)
    for selection, plan in zip(selections, plans):
        for dependency, features in plan.items():
            if known.get(dependency) != features:
                anew[dependency].add(" ".join(selection[:3]))
    return anew


def requirement(version):
    """The versions of Cargo that are compatible with this one and with the older ones like it."""
    major, minor, patch = version.split("+")[0].split(".")[:3]
    return major if major != "0" else f"0.{minor}" if minor != "0" else f"0.0.{patch}"


def entries(features_of):
    """Lines of a table of dependencies: (name, version) -> features that each is compiled with."""
    names = [name for name, _ in features_of]
    for (name, version), features in sorted(features_of.items()):
        compatible = requirement(version)
        listed = ", ".join(f'"{feature}"' for feature in sorted(features - {"default"}))
        key, renamed = name, ""
        if names.count(name) > 1:
            key, renamed = f"{name}-{compatible.replace('.', '_')}", f'package = "{name}", '
        plain = "" if "default" in features else ", default-features = false"
        chosen = f", features = [{listed}]" if listed else ""
        yield f'{key} = {{ {renamed}version = "{compatible}"{plain}{chosen} }}'


def manifest(united):
    """The manifest that gives these dependencies, by name, version and platform, the features of the workspace."""
    known = of_workspace()
    text = HEAD
    for section, platform in SECTIONS.items():
        features_of = {dependency[:2]: known[dependency] for dependency in united if dependency[2] == platform}
        if features_of:
            text += f"\n[{section}]\n" + "".join(line + "\n" for line in entries(features_of))
    return text


def write():
    """Writes the manifest. More crates may differ once some are united, so it goes on until none does."""
    united = set()
    while True:
        MANIFEST.write_text(manifest(united))
        subprocess.run(["cargo", "update", "--workspace", "--offline", "--quiet"], cwd=WORKSPACE, check=True)
        differing = set(compiled_anew())
        if not differing:
            break
        if differing <= united:
            sys.exit(f"error: the features of these cannot be united: {differing}")
        united |= differing
    print(f"{MANIFEST.relative_to(WORKSPACE)}: {len(united)} dependencies")


def main():
    if sys.argv[1:] == ["--write"]:
        return write()
    anew = compiled_anew()
    for (name, version, _), alone in sorted(anew.items(), key=lambda row: row[0][:2]):
        print(
            f"error: {name} {version} has other features for `cargo {sorted(alone)[0]}` than for the workspace; "
            "run `make features`",
            file=sys.stderr,
        )
    print(f"{len(anew)} dependencies that one crate alone would compile anew")
    sys.exit(bool(anew))


if __name__ == "__main__":
    main()
