"""Checks the shape of the workspace: crates, files and comments. Fails with every breach.

- A crate's files do not import each other in a circle.
- Only `services/clew` depends on services, but for those that are mounted on another one. The services that run no
  model do not depend on the crate of tensors, directly or by way of others.
- `ARCHITECTURE.md` tells of each crate what it depends on, and lists the seams, as manifests and code have them.
- No two public types of the workspace share a name.
- Comments are at most 100 columns wide.

It reads `use` declarations and paths, not what a compiler makes of them: macros that write imports are
not seen.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORKSPACE = Path(__file__).resolve().parent.parent.parent
COMMENT_WIDTH = 100
# The service that wires the others, and may depend on them.
WIRING = "services/clew"
# Services that are libraries over what clients see, and the service that serves their routes.
MOUNTED = {"services/console": "services/gateway"}
# Services that are built without the tensor library, and the crate that names it.
WITHOUT_TENSORS = {"services/gateway", "services/graph-builder", "services/retriever"}
TENSORS = "clew-model"
# Holds no code, and nearly every crate depends on it; see `features.py`.
FEATURES = "clew-workspace-hack"


def members():
    """Folder of each crate of the workspace -> its manifest."""
    workspace = tomllib.loads((WORKSPACE / "Cargo.toml").read_text())["workspace"]
    folders = sorted(f for pattern in workspace["members"] for f in WORKSPACE.glob(pattern))
    return {f: tomllib.loads((f / "Cargo.toml").read_text()) for f in folders if (f / "Cargo.toml").is_file()}


# --- Circles of files


def without_comments(code):
    """The code without comments, and without the unit tests at a file's end."""
    code = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL))
    return re.split(r"#\[cfg\(test\)\]\nmod \w+ \{", code, maxsplit=1)[0]


def paths_of(tree, prefix=()):
    """The paths that a `use` tree names: `a::{b, c::d}` -> (a, b), (a, c, d)."""
    depth, begin, parts = 0, 0, []
    for i, character in enumerate(tree):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(tree[begin:i])
            begin = i + 1
    for part in filter(None, map(str.strip, [*parts, tree[begin:]])):
        group = re.fullmatch(r"((?:\w+::)*)\{(.*)\}", part, re.DOTALL)
        if group:
            inner = tuple(filter(None, group[1].split("::")))
            yield from paths_of(group[2], prefix + inner)
        else:
            yield prefix + tuple(re.sub(r"\s+as\s+\w+$", "", part).split("::"))


class Modules:
    """The modules of a crate, one for each file but those of tests alone, and who imports whom."""

    def __init__(self, source):
        self.uses, self.exports = {}, {}
        code = {}
        for file in source.rglob("*.rs"):
            name = file.relative_to(source).with_suffix("").parts
            if name == ("main",) and (source / "lib.rs").exists():
                continue
            code[() if name in {("lib",), ("main",)} else name] = without_comments(file.read_text())
        tests = {
            (*module, name)
            for module, text in code.items()
            for name in re.findall(r"^#\[cfg\(test\)\]\n(?:pub(?:\([^)]*\))? )?mod (\w+);", text, re.MULTILINE)
        }
        for module in [m for m in code if any(m[:end] in tests for end in range(1, len(m) + 1))]:
            del code[module]
        for module, text in code.items():
            used = []
            for public, tree in re.findall(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", text, re.MULTILINE):
                used += [(bool(public), path) for path in paths_of(tree)]
            inline = re.findall(r"(?<!\bin )\b(?:crate|super)(?:::\w+)+", text)
            used += [(False, tuple(path.split("::"))) for path in inline]
            self.uses[module] = used
        for module, used in self.uses.items():
            for public, path in used:
                if public and (whole := self.absolute(module, path)):
                    self.exports[(*module, path[-1])] = whole

    def absolute(self, module, path):
        """The path from the crate's root; `None` if it leads to another crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        above = next((i for i, part in enumerate(path) if part != "super"), len(path))
        if above:
            return module[: len(module) - above] + path[above:]
        return module + path if module + path[:1] in self.uses else None

    def file_of(self, path, seen=()):
        """The module in which the thing at a path is defined, through re-exports."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.uses:
                exported = self.exports.get(path[: end + 1])
                if end < len(path) and exported and exported not in (path, *seen):
                    return self.file_of(exported + path[end + 1 :], (*seen, path))
                return path[:end]
        return None

    def imports(self):
        edges = defaultdict(set)
        for module, used in self.uses.items():
            for public, path in used:
                whole = None if public else self.absolute(module, path)
                target = None if whole is None else self.file_of(whole)
                if target is not None and target != module:
                    edges[module].add(target)
        return edges

    def circles(self):
        """Each largest set of modules of which every one reaches every other."""
        edges = self.imports()

        def reached(start):
            found, waiting = set(), [start]
            while waiting:
                for target in edges[waiting.pop()] - found:
                    found.add(target)
                    waiting.append(target)
            return found

        reach = {module: reached(module) for module in list(self.uses)}
        circles = {
            frozenset(other for other in reach[module] if module in reach[other])
            for module in self.uses
            if module in reach[module]
        }
        return [sorted("/".join(module) or "lib" for module in circle) for circle in circles]


def circles(crates):
    for folder in crates:
        for circle in Modules(folder / "src").circles():
            yield f"{folder.relative_to(WORKSPACE)}: these files import each other: {', '.join(circle)}"


# --- Crates and their map


def dependencies(manifest, kinds=("dependencies",)):
    """Names of the workspace's crates that a manifest names."""
    tables = [manifest, *manifest.get("target", {}).values()]
    named = {name for table in tables for kind in kinds for name in table.get(kind, {})}
    return {name for name in named if name.startswith("clew")} - {FEATURES}


def dependent_services(crates):
    """Dependencies on a service, which only `WIRING` may have, and ways to `TENSORS`. Tests may use services."""
    names = {manifest["package"]["name"]: str(f.relative_to(WORKSPACE)) for f, manifest in crates.items()}
    used = {
        manifest["package"]["name"]: sorted(dependencies(manifest, ("dependencies", "build-dependencies")))
        for manifest in crates.values()
    }
    for crate, folder in names.items():
        for service in (name for name in used[crate] if names[name].startswith("services/")):
            if folder not in (WIRING, MOUNTED.get(names[service])):
                yield f"{folder} depends on {names[service]}; call it through a seam, and put its client into crates/remote"
        if folder in WITHOUT_TENSORS:
            ways, reached = [[crate]], {crate}
            for way in ways:
                beyond = [name for name in used[way[-1]] if name not in reached]
                reached |= set(beyond)
                ways += [[*way, name] for name in beyond]
            for way in (way for way in ways if way[-1] == TENSORS):
                yield f"{folder} is built with the tensor library: {' -> '.join(way)}"


def drifted_map(crates):
    """Where the table of crates in ARCHITECTURE.md differs from the manifests."""
    text = (WORKSPACE / "ARCHITECTURE.md").read_text()
    rows = {}
    for row in re.findall(r"^\| `((?:crates|services)/[\w-]+|loadtest)` \|(.*)\|$", text, re.MULTILINE):
        rows[row[0]] = {name.strip(" `") for name in row[1].split("|")[1].split(",")} - {""}
    short = {m["package"]["name"]: f.name for f, m in crates.items()}
    for folder, manifest in crates.items():
        name = str(folder.relative_to(WORKSPACE))
        if name not in rows:
            yield f"ARCHITECTURE.md has no row for `{name}`"
            continue
        used = {short[d] for d in dependencies(manifest)}
        for missing in sorted(used - rows[name]):
            yield f"ARCHITECTURE.md: the row of `{name}` lacks `{missing}`, which its manifest names"
        for gone in sorted(rows[name] - used):
            yield f"ARCHITECTURE.md: the row of `{name}` has `{gone}`, which its manifest does not name"
    for name in sorted(rows.keys() - {str(f.relative_to(WORKSPACE)) for f in crates}):
        yield f"ARCHITECTURE.md has a row for `{name}`, which is no crate"
    picture = re.search(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.split() for line in picture[1].splitlines()] if picture else []
    height = {name: -number for number, line in enumerate(lines) for name in line}
    for folder, manifest in crates.items():
        if folder.name not in height:
            yield f"ARCHITECTURE.md: the picture lacks `{folder.name}`"
            continue
        for used in sorted(short[name] for name in dependencies(manifest)):
            if height.get(used, 0) >= height[folder.name]:
                yield f"ARCHITECTURE.md: the picture has `{used}` not below `{folder.name}`, which uses it"
    traits = set()
    for file in (WORKSPACE / "crates/core/src").rglob("*.rs"):
        traits |= set(re.findall(r"^pub trait (\w+)", file.read_text(), re.MULTILINE))
    listed = re.search(r"^Seams: (.+?)\.\n\n", text, re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"`(\w+)`", listed[1])) if listed else set()
    for missing in sorted(traits - listed):
        yield f"ARCHITECTURE.md does not list the seam `{missing}` of crates/core"
    for gone in sorted(listed - traits):
        yield f"ARCHITECTURE.md lists the seam `{gone}`, which crates/core does not have"


# --- Names

# Names that several crates may give a public type, with the reason.
SHARED = {
    # Each library has one error enum, which its users write as `index::Error`.
    "Error",
    # Each section of the configuration may have one, in the module that it configures.
    "Config",
}


def public_types(folder):
    """(name, file) of each type that is `pub` without a restriction, outside generated code and unit tests."""
    for file in sorted((folder / "src").rglob("*.rs")):
        if "generated" in file.parts:
            continue
        declared = r"^[ \t]*pub (?:unsafe )?(?:struct|enum|union|trait|type) (\w+)"
        for name in re.findall(declared, without_comments(file.read_text()), re.MULTILINE):
            yield name, file.relative_to(WORKSPACE)


def shared_names(crates):
    """Names that two public types have."""
    places = defaultdict(list)
    for folder in crates:
        for name, file in public_types(folder):
            places[name].append(str(file))
    for name, files in places.items():
        if len(files) > 1 and name not in SHARED:
            yield f"these files have a public type `{name}`; rename all but one: {', '.join(files)}"


# --- Comments


def wide_comments(crates):
    folders = [*crates, WORKSPACE / "tests", WORKSPACE / "examples"]
    for file in (file for folder in folders for file in folder.rglob("*.rs")):
        if "generated" in file.parts:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if len(line) > COMMENT_WIDTH and line.lstrip().startswith("//"):
                yield f"{file.relative_to(WORKSPACE)}:{number}: a comment of {len(line)} columns"


def main():
    crates = members()
    checks = [circles, dependent_services, drifted_map, shared_names, wide_comments]
    problems = [problem for check in checks for problem in sorted(check(crates))]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{len(crates)} crates, {len(problems)} breaches")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
