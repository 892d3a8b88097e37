"""Renders the chart and the overlays and holds them, and `compose.yaml`, to all that can be told without a cluster.

Run as `make deploy-check`, in two parts: without an argument what needs no program of Clew, with `--clew` what asks
one for its configuration. It says what it checked, names every problem, and fails if there is one.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import kubernetes_validate
import yaml

import compose
import faults
import manifests
import network
import rules
import values
from manifests import CHART, K8S, WORKSPACE, Helm, Refused

# The oldest that the chart takes, and the newest of which there are schemas.
VERSIONS = ("1.30", "1.37")
# Kinds of which Kubernetes itself knows nothing.
FOREIGN = ("ServiceMonitor", "PrometheusRule")
STORAGE = ("198.51.100.7", 443, {"retriever"})


@dataclass
class Case:
    """A way to install Clew, what it needs of the user, and where it has to get."""

    name: str
    examples: list
    settings: list = field(default_factory=list)
    # Objects that are the user's to make: (kind, name).
    provided: set = field(default_factory=set)
    # Places outside: name -> (address, port, roles that need it).
    outward: dict = field(default_factory=lambda: {"storage": STORAGE})
    clients_are_named: bool = False


def secrets(*names):
    return {("Secret", name) for name in names}


def claims(*names):
    return {("PersistentVolumeClaim", name) for name in names}


CERTIFICATES = secrets(*(f"clew-tls-{role}" for role in network.ROLES))
USUAL = CERTIFICATES | secrets("clew-api-keys", "clew-s3", "clew-redis") | claims("clew-models")
CASES = [
    Case("a bucket", ["bucket"], provided=USUAL),
    Case("GPUs", ["bucket", "gpu"], provided=USUAL),
    Case(
        "one certificate",
        ["bucket"],
        ["secrets.tls=clew-tls"],
        provided=USUAL - CERTIFICATES | secrets("clew-tls"),
    ),
    Case(
        "a trial",
        ["trial"],
        provided=claims("clew-models", "clew-data"),
        outward={"anything": ("198.51.100.7", 443, set())},
    ),
    Case(
        "another Redis",
        ["bucket", "external-redis"],
        provided=USUAL - secrets("clew-redis") | secrets("managed-redis", "managed-redis-tls"),
        outward={"storage": STORAGE, "Redis": ("10.20.3.4", 6380, set(network.ROLES))},
    ),
    Case(
        "a model's endpoint",
        ["bucket", "model-endpoint"],
        provided=USUAL | secrets("clew-model-keys", "clew-ingest") | claims("clew-input"),
        outward={
            "storage and models": (*STORAGE[:2], {"retriever", "generator"}),
            "models": ("198.51.100.8", 8000, {"generator"}),
            "collector": ("198.51.100.9", 4317, set(network.ROLES)),
        },
        clients_are_named=True,
    ),
    Case(
        "endpoints of encoders",
        ["bucket"],
        [
            "secrets.modelKeys=clew-model-keys",
            "config.encoder.model=null",
            "config.encoder.endpoint.url=https://api.example.org/v1",
            "config.encoder.endpoint.model=embedder",
            "config.encoder.endpoint.dimension=256",
            "config.encoder.endpoint.shorten=server",
            "config.encoder.endpoint.api_key_file=/etc/clew/model-keys/main",
            "config.reranker.endpoint.url=https://api.example.org/v1",
            "config.reranker.endpoint.model=reranker",
        ],
        provided=USUAL | secrets("clew-model-keys"),
        outward={"storage and models": (*STORAGE[:2], {"retriever", "memory-encoder"})},
    ),
    Case(
        "a source in a bucket, in parts",
        ["bucket"],
        [
            "ingest.enabled=true",
            "ingest.paths[0]=s3://source/wiki",
            "ingest.parts=32",
            "ingest.source=wiki",
            "ingest.s3.secret=wiki-reader",
        ],
        provided=USUAL | secrets("clew-ingest", "wiki-reader"),
        outward={"storage": (*STORAGE[:2], {"retriever", "ingest"})},
    ),
    Case(
        "as much as there is",
        ["bucket"],
        [
            "serviceMonitor.enabled=true",
            "alerts.enabled=true",
            "dashboards.enabled=true",
            "ingest.enabled=true",
            "gateway.service.type=LoadBalancer",
            "config.http.listen=0.0.0.0:7422",
            "config.tls.client_ca=null",
            "image.pullSecrets[0]=registry",
            "retriever.env[0].name=RUST_BACKTRACE",
            "retriever.env[0].value=\"1\"",
            "retriever.podAnnotations.team=memory",
            "retriever.serviceAccountAnnotations.role=storage",
        ],
        provided=USUAL | secrets("clew-ingest") | claims("clew-input"),
    ),
]
OVERLAYS = {
    "overlays/cpu": USUAL,
    "overlays/gpu": USUAL,
    "overlays/cpu-ingest": USUAL | secrets("clew-ingest") | claims("clew-input"),
}


class Report:
    """Counts what was checked and keeps what is wrong."""

    def __init__(self):
        self.problems = []
        self.since = time.monotonic()

    def section(self, name, problems):
        problems = list(problems)
        self.problems += [f"{name}: {problem}" for problem in problems]
        took, self.since = time.monotonic() - self.since, time.monotonic()
        print(f"{'ok ' if not problems else 'BAD'} {name} ({took:.1f} s)", flush=True)


def schema_breaches(objects):
    for found in objects:
        for version in VERSIONS if found["kind"] not in FOREIGN else ():
            try:
                kubernetes_validate.validate(found, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                path = ".".join(map(str, error.path))
                yield f"{rules.title(found)}: Kubernetes {version} refuses {path}: {error.message}"


def manifest_breaches(text, provided, outward, clients_are_named=False):
    objects = manifests.objects(text)
    yield from rules.traps(text)
    yield from schema_breaches(objects)
    yield from rules.breaches(objects, provided)
    yield from network.breaches(objects, outward, clients_are_named)


def case_breaches(helm, case):
    try:
        helm.lint(case.examples, case.settings)
        text = helm.render(case.examples, case.settings)
        notes = helm.notes(case.examples, case.settings)
    except Refused as error:
        yield str(error)
        return
    yield from manifest_breaches(text, case.provided, case.outward, case.clients_are_named)
    untold = [name for _kind, name in case.provided if name not in notes]
    if untold:
        yield f"NOTES.txt does not tell of {untold}"


def wrong_values_taken(helm):
    for setting, expected in values.WRONG:
        try:
            helm.render(["bucket"], [setting])
            yield f"{setting} was taken"
        except Refused as error:
            if expected not in str(error):
                yield f"{setting}: expected `{expected}`, got `{error}`"


def kustomize_is_old(helm):
    wanted = manifests.kustomize_files(helm)
    there = {}
    for folder in ["base", *(f"components/{component}" for component in manifests.COMPONENTS)]:
        files = [file for file in (K8S / folder).iterdir() if file.name != "kustomization.yaml"]
        there |= {f"{folder}/{file.name}": file.read_text() for file in files}
        listed = yaml.safe_load((K8S / folder / "kustomization.yaml").read_text())["resources"]
        if sorted(listed) != sorted(file.name for file in files if file.suffix == ".yaml"):
            yield f"k8s/{folder}/kustomization.yaml does not list the files beside it"
    for path in sorted(wanted.keys() | there.keys()):
        if wanted.get(path) != there.get(path):
            yield f"k8s/{path} is not what the chart makes; run `make manifests`"


def overlay_breaches(overlay, provided):
    try:
        text = manifests.build(overlay)
    except Refused as error:
        yield str(error)
        return
    yield from manifest_breaches(text, provided, {"storage": STORAGE})


def long_name_breaches(helm):
    """Names stay names, and apart, for the longest name that Helm takes."""
    whole = CASES[-1]
    text = helm.render(whole.examples, whole.settings, release="memory-of-the-applications-of-the-second-department")
    yield from manifest_breaches(text, whole.provided, whole.outward)


def versions_differ():
    """What has to be the same in several files."""
    cargo = manifests.tomllib.loads((WORKSPACE / "Cargo.toml").read_text())
    version = cargo["workspace"]["package"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for key in ("version", "appVersion"):
        if chart[key] != version:
            yield f"Chart.yaml: {key} is {chart[key]}, expected that of Cargo.toml, {version}"
    compiler = manifests.tomllib.loads((WORKSPACE / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    containerfile = (WORKSPACE / "Containerfile").read_text()
    if f"library/rust:{compiler}-" not in containerfile or f"RUSTUP_TOOLCHAIN={compiler}\n" not in containerfile:
        yield f"Containerfile: expected the compiler of rust-toolchain.toml, {compiler}"
    targets = set(re.findall(r"^FROM .* AS ([\w-]+)$", containerfile, re.MULTILINE))
    wanted = {*network.ROLES, "clew", "memory-encoder-cuda", "generator-cuda"}
    if not wanted <= targets:
        yield f"Containerfile: there is no target {', '.join(wanted - targets)}, which the chart names"


def containerfile_breaches():
    hadolint = str(Path(sys.executable).with_name("hadolint"))
    ran = subprocess.run([hadolint, WORKSPACE / "Containerfile"], capture_output=True, text=True)
    yield from ran.stdout.splitlines() + ran.stderr.splitlines()


def context_breaches():
    """What the stage that compiles is given is the whole workspace: Cargo reads all of it before it builds any."""
    stage = (WORKSPACE / "Containerfile").read_text().partition("AS compiled\n")[2].partition("\nFROM ")[0]
    copied = [word for line in re.findall(r"^COPY (.*)$", stage, re.MULTILINE) for word in line.split()[:-1]]
    let_through = (WORKSPACE / ".dockerignore").read_text().splitlines()
    for source in copied:
        if f"!{source}" not in let_through:
            yield f"Containerfile: copies {source}, which .dockerignore leaves out"
    environment = dict(re.findall(r"^ENV (\w+)=(\S+)$", stage, re.MULTILINE))
    with manifests.temporary() as folder:
        for source in copied:
            taken, place = WORKSPACE / source, Path(folder) / source
            place.parent.mkdir(parents=True, exist_ok=True)
            installed = shutil.ignore_patterns("node_modules")
            shutil.copytree(taken, place, ignore=installed) if taken.is_dir() else shutil.copy(taken, place)
        # Of this machine's platform alone. `cargo metadata` wants the packages of every platform, which no build downloads.
        command = ["cargo", "tree", "--locked", "--workspace", "--depth=0"]
        ran = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
        )
    if ran.returncode:
        yield f"Containerfile: what is copied is no workspace: {' '.join(ran.stderr.split())}"


def check_charts(report, helm):
    """Checks all that can be told without a program of Clew."""
    for case in CASES:
        report.section(f"chart, {case.name}", case_breaches(helm, case))
    report.section("chart, a long name", long_name_breaches(helm))
    report.section(f"{len(values.WRONG)} wrong values are refused", wrong_values_taken(helm))
    whole = CASES[-1]
    good = manifests.objects(helm.render(whole.examples, whole.settings))
    count = len(faults.FAULTS) + len(faults.NETWORK_FAULTS) + len(faults.TRAPS)
    report.section(f"{count} faults are found", faults.missed(good, whole.provided, whole.outward))
    report.section("certificates let through who calls", network.callers_differ())
    report.section("k8s is made of the chart", kustomize_is_old(helm))
    for overlay, provided in OVERLAYS.items():
        if manifests.kustomize():
            report.section(f"kustomize {overlay}", overlay_breaches(overlay, provided))
        else:
            print(f"??? kustomize {overlay}: neither kubectl nor kustomize is installed", flush=True)
    report.section("versions agree", versions_differ())
    report.section("Containerfile, by hadolint", containerfile_breaches())
    report.section("the images are built of the whole workspace", context_breaches())


def check_configuration(report, clew):
    """Checks that chart and `compose.yaml` configure the program as it wants to be configured."""
    differences = values.breaches(clew, values.schema(), values.defaults())
    report.section("values are the programs' configuration", differences)
    report.section(f"{len(faults.DRIFTS)} differences of them are found", faults.missed_drifts(clew))
    report.section("compose.yaml", compose.breaches(clew, compose.read()))
    report.section(f"{len(compose.FAULTS)} faults of it are found", compose.missed_faults(clew))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--clew", help="the program: check that it is configured as it wants, and nothing else")
    task.add_argument("--write", action="store_true", help="write what below k8s is made of the chart, and end")
    arguments = parser.parse_args()
    report = Report()
    if arguments.clew:
        check_configuration(report, arguments.clew)
    else:
        with manifests.temporary() as folder:
            helm = Helm(folder)
            if arguments.write:
                for path, text in manifests.kustomize_files(helm).items():
                    (K8S / path).write_text(text)
                return
            check_charts(report, helm)
    for problem in report.problems:
        print(f"error: {problem}", file=sys.stderr)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
