"""Holds the dependencies to `deny.toml`: licences, versions and sources. Fails with every breach.

`cargo deny` does this and more, but takes minutes to compile, which is too dear to ask of everyone who
runs `make check`. This reads the parts of the same file that matter most, from what `cargo tree` says
is really built on each target. It does not know advisories.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORKSPACE = Path(__file__).resolve().parent.parent.parent
# `name v1.2.3 (proc-macro) (where it comes from, unless the default registry)|licence (*)`
LINE = re.compile(r"(\S+) v(\S+)(?: \(proc-macro\))?(?: \(([^()]+)\))?\|(.*?)(?: \(\*\))?")


def packages(targets):
    """What is built on any of the targets: (name, version, source) -> licence expression."""
    found = {}
    for target in targets:
        tree = ["cargo", "tree", "--locked", "--workspace", "--target", target]
        form = ["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}|{l}"]
        ran = subprocess.run([*tree, *form], cwd=WORKSPACE, stdout=subprocess.PIPE, text=True)
        if ran.returncode != 0:
            sys.exit("error: the dependencies are not known; is Cargo.lock up to date?")
        for line in filter(None, ran.stdout.splitlines()):
            name, version, source, licence = LINE.fullmatch(line).groups()
            found[name, version, source] = licence
    return found


def is_allowed(expression, allowed):
    """Whether an SPDX expression can be met with the allowed licences."""
    # The old way to write OR.
    tokens = re.findall(r"[()]|[^\s()]+(?: WITH \S+)?", expression.replace("/", " OR "))

    def alternatives():
        met = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = conjunction() or met
        return met

    def conjunction():
        met = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = term() and met
        return met

    def term():
        token = tokens.pop(0) if tokens else ""
        if token == "(":
            met = alternatives()
            return (tokens.pop(0) if tokens else "") == ")" and met
        return token in allowed

    return alternatives() and not tokens


def breaches(policy, found):
    """Every breach of the policy, for a person."""
    allowed = set(policy["licenses"]["allow"])
    exceptions = {e["crate"]: set(e["allow"]) for e in policy["licenses"]["exceptions"]}
    versions = defaultdict(set)
    for (name, version, source), licence in found.items():
        versions[name].add(version)
        if not is_allowed(licence, allowed | exceptions.get(name, set())):
            yield f"{name} {version}: licence `{licence}` is not allowed"
        if source and not Path(source).is_relative_to(WORKSPACE):
            yield f"{name} {version}: comes from {source}, not from the default registry"
    for ban in policy["bans"]["deny"]:
        name, present = ban["crate"], sorted(versions.get(ban["crate"], []))
        if ban.get("deny-multiple-versions"):
            if len(present) > 1:
                yield f"{name}: versions {', '.join(present)}, expected one: {ban['reason']}"
        elif present:
            yield f"{name}: is banned: {ban['reason']}"


def main():
    policy = tomllib.loads((WORKSPACE / "deny.toml").read_text())
    found = packages(policy["graph"]["targets"])
    problems = sorted(breaches(policy, found))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{len(found)} packages held to deny.toml, {len(problems)} breaches")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
