"""Installs what `make dist` made as its users would, and uses it.

Run as `make dist-test`, or as `make dist-check` over the program of `make build`. Nothing of this repository is used
but the folder that is named: homes, caches and the working directory are temporary. It needs the network, for the
embedding model. It fails with the first thing that is not as it should be, and tells how long a first answer took.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

TEXT = "Backups are kept for 35 days. They are checked every Monday.\n"
QUESTION = "How long are backups kept?"
ANSWER = "35 days"
DOCUMENTS = "share/doc/clew"
NOTICES = "THIRD-PARTY-NOTICES.txt"
DIGEST_OF_ANOTHER_FILE = hashlib.sha256(b"another file").hexdigest()
# Seconds that one command may take, the fetching of the model included.
PATIENCE = 600
# What commands need to work, and what pip needs to find packages.
KEPT = ("LANG", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Home:
    """An empty home with a text to ingest."""

    def __init__(self, folder, path):
        self.folder = folder
        folder.mkdir()
        (folder / "backups.md").write_text(TEXT)
        kept = {
            name: value for name, value in os.environ.items() if name.upper() in KEPT or name.startswith("PIP_")
        }
        # On macOS, caches are below the home.
        caches = {"XDG_CACHE_HOME": str(folder / "caches"), "PIP_CACHE_DIR": str(folder.parent / "pip")}
        self.environment = {**kept, **caches, "HOME": str(folder), "PATH": path}

    def run(self, *command, fails=False):
        """Runs a command here and returns its end."""
        ran = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if (ran.returncode != 0) != fails:
            words = " ".join(map(str, command))
            sys.exit(f"error: `{words}` ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return ran

    def ingest(self, *clew):
        return self.run(*clew, "ingest", "--corpus", "handbook", "backups.md")

    def ask(self, *clew):
        """Asks a question whose answer is known, and checks the answer and its citation."""
        ran = self.run(*clew, "ask", "--corpus", "handbook", "--json", QUESTION)
        answer = json.loads(ran.stdout)
        (citation,) = answer["citations"]
        expect(ANSWER in answer["answer"], f"the answer is {answer['answer']}")
        expect(citation["document_id"] == "backups.md", f"the citation is {citation}")
        cited = TEXT.encode()[citation["span"]["start"] : citation["span"]["end"]].decode()
        expect(ANSWER in cited, f"the citation is of `{cited}`")
        return ran

    def fetched_model(self):
        caches = "Library/Caches" if sys.platform == "darwin" else "caches"
        return self.folder / caches / "clew/all-MiniLM-L6-v2"


def expect(is_so, otherwise):
    if not is_so:
        sys.exit(f"error: {otherwise}")


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    expect(len(found) == 1, f"expected one {pattern} in {folder}, found {[file.name for file in found]}")
    return found[0]


def check_sums(folder):
    """Every file has its line in SHA256SUMS, and the right one."""
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    told = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {file.name for file in folder.iterdir()} - {"SHA256SUMS"}
    expect(set(told) == files, f"SHA256SUMS lists {sorted(told)}, and there are {sorted(files)}")
    for name, digest in told.items():
        is_right = hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        expect(is_right, f"{name} has another SHA-256 than SHA256SUMS says")


def check_bill_of_materials(file):
    """It is valid, and tells what is in the program and nothing that only tests it. Returns the crates of others."""
    text = file.read_text()
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    expect(not problem, f"{file.name} is not valid: {problem}")
    components = json.loads(text)["components"]
    names = {component["name"] for component in components}
    for name, is_expected in [("lance", True), ("tokio", True), ("clew-core", True), ("clew-testkit", False)]:
        expect((name in names) == is_expected, f"{file.name} {'lacks' if is_expected else 'has'} {name}")
    for component in components:
        expect(component["licenses"], f"{file.name} tells no licence of {component['name']}")
    of_others = [component for component in components if not component["name"].startswith("clew")]
    for component in of_others:
        expect(component.get("hashes"), f"{file.name} tells no checksum of {component['name']}")
    return {f"{component['name']} {component['version']}" for component in of_others}


def check_notices(prefix, crates):
    """Every crate in the program has its licence there."""
    text = (prefix / DOCUMENTS / NOTICES).read_text()
    told = {line.split(" (")[0] for line in text.splitlines()}
    expect(crates <= told, f"{NOTICES} lacks {sorted(crates - told)[:5]}")
    for words in ("Apache License", "Permission is hereby granted, free of charge"):
        expect(words in text, f"{NOTICES} does not say `{words}`")


def check_prefix(prefix, home):
    """Completions and manual pages are there and work, and so does the program alone."""
    version = home.run(prefix / "bin/clew", "--version").stdout
    expect(version.startswith("clew "), f"`clew --version` printed {version}")
    for page in ("clew.1", "clew-ask.1", "clew-corpus-create.1"):
        text = (prefix / "share/man/man1" / page).read_text()
        expect(".TH" in text, f"{page} is not a manual page")
    completions = prefix / "share/bash-completion/completions/clew"
    completed = home.run("bash", "-c", f"source '{completions}' && complete -p clew").stdout
    expect("clew" in completed, f"bash completes {completed}")
    for shell, place in (("zsh", "zsh/site-functions/_clew"), ("fish", "fish/vendor_completions.d/clew.fish")):
        file = prefix / "share" / place
        expect("ingest" in file.read_text(), f"{file} does not complete `ingest`")
        if shutil.which(shell):
            home.run(shutil.which(shell), "-n", file)
    documents = prefix / DOCUMENTS
    for name in ("LICENSE", "README.md", NOTICES):
        expect((documents / name).is_file(), f"there is no {name}")


def without_network():
    """What cuts a command off the network, where the system lets anybody do so."""
    command = ["unshare", "--map-root-user", "--net"]
    works = shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    if not works:
        print("the network cannot be cut here")
    return command if works else []


def check_wheel(wheel, temporary):
    """Installs the wheel and asks. Returns the place of the installation."""
    prefix = temporary / "environment"
    home = Home(temporary / "wheel-home", f"{prefix / 'bin'}:/usr/bin:/bin")
    begun = time.monotonic()
    home.run(sys.executable, "-m", "venv", prefix)
    home.run("python", "-m", "pip", "install", "--quiet", "--no-index", wheel)
    installed = time.monotonic()
    program = home.run("sh", "-c", "command -v clew").stdout.strip()
    expect(program == str(prefix / "bin/clew"), f"`clew` is {program}")
    ingested = home.ingest("clew")
    expect("embedding model" in ingested.stderr and str(home.fetched_model()) in ingested.stderr, "nothing was told")
    home.ask("clew")
    answered = time.monotonic()
    print(
        f"a first answer {answered - begun:.1f} s after the beginning of `python -m venv`, "
        f"of which {installed - begun:.1f} s were the installation, "
        f"and {answered - installed:.1f} s fetching the model, ingesting and asking"
    )
    offline = without_network()
    again = home.ask(*offline, "clew")
    expect("fetching" not in again.stderr, f"the model was fetched again: {again.stderr}")
    found = home.run("clew", "doctor").stdout
    expect(str(home.fetched_model()) in found, f"`clew doctor` does not tell where the model is: {found}")
    check_prefix(prefix, home)
    return prefix


def check_refusals(prefix, temporary):
    """A model with other content is refused and leaves nothing, and fetching can be forbidden."""
    home = Home(temporary / "refusing-home", f"{prefix / 'bin'}:/usr/bin:/bin")
    home.environment["CLEW_ENCODER__FETCH_MODEL"] = "false"
    forbidden = home.run("clew", "list", "--corpus", "handbook", fails=True)
    expect("encoder.fetch_model" in forbidden.stderr, f"it says {forbidden.stderr}")
    expect("fetching" not in forbidden.stderr, f"it fetched: {forbidden.stderr}")

    del home.environment["CLEW_ENCODER__FETCH_MODEL"]
    sums = prefix / "share/clew/fetch/model.sha256"
    first, rest = sums.read_text().split("\n", 1)
    sums.write_text(f"{DIGEST_OF_ANOTHER_FILE}  {first.split()[1]}\n{rest}")
    refused = home.run("clew", "ingest", "--corpus", "handbook", "backups.md", fails=True)
    expect("SHA-256" in refused.stderr, f"it does not tell the cause: {refused.stderr}")
    expect("CLEW_MODEL_DIR" in refused.stderr, f"it does not tell what to do: {refused.stderr}")
    model = home.fetched_model()
    # The lock remains.
    left = [file.name for file in model.parent.iterdir() if not file.name.endswith(".lock")]
    expect(not left, f"there is {left} in {model.parent}")


def check_tarball(tarball, temporary):
    """Unpacks the tarball and asks, without a network and without Python."""
    with tarfile.open(tarball) as archive:
        entries = archive.getmembers()
        archive.extractall(temporary / "unpacked")
    names = [entry.name for entry in entries]
    expect(all(entry.uid == entry.gid == 0 for entry in entries), "entries of the tarball have owners")
    expect(len({entry.mtime for entry in entries}) == 1, "entries of the tarball are of several moments")
    prefix = only(temporary / "unpacked", "*")
    expect(prefix.name == tarball.name.removesuffix(".tar.gz"), f"the tarball has the folder {prefix.name}")
    expect(names == sorted(names, key=lambda name: name.split("/")), "the tarball is not sorted")
    nothing = temporary / "nothing"
    nothing.mkdir()
    home = Home(temporary / "tarball-home", str(nothing))
    clew = [*map(str, without_network()), prefix / "bin/clew"]
    if len(clew) > 1:
        clew[0] = shutil.which(clew[0])
    home.ingest(*clew)
    home.ask(*clew)
    expect(not home.fetched_model().parent.exists(), "the program of the tarball fetched something")
    home.environment["PATH"] = "/usr/bin:/bin"
    check_prefix(prefix, home)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("made", type=Path, help="folder of what `make dist` made")
    made = parser.parse_args().made.absolute()
    check_sums(made)
    crates = check_bill_of_materials(only(made, "*.cdx.json"))
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder).resolve()
        prefix = check_wheel(only(made, "*.whl"), temporary)
        check_notices(prefix, crates)
        check_refusals(prefix, temporary)
        check_tarball(only(made, "*.tar.gz"), temporary)
    print("wheel, tarball, checksums and bill of materials are as they should be")


if __name__ == "__main__":
    main()
