"""Renders the chart and the overlays, and reads what comes out."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORKSPACE = Path(__file__).resolve().parents[2]
CHART = WORKSPACE / "helm/clew"
EXAMPLES = CHART / "examples"
K8S = WORKSPACE / "k8s"
# What overlays add to the base if they want it.
COMPONENTS = ("ingest", "monitoring")
# As whom the resources are rendered, and for which Kubernetes.
RELEASE = NAMESPACE = "clew"
KUBERNETES = "1.33.0"
# Seconds that rendering may take.
PATIENCE = 60
NOBODY = 65534


class Refused(Exception):
    """What was asked for was refused; the message says why."""


class Helm:
    """Helm, on a copy of the chart that it may read and nothing else.

    The helm that `.setup/install deploy` fetches was not built by its authors. As root it runs as nobody and without
    a network.
    """

    def __init__(self, folder):
        fetched = WORKSPACE / ".cache/helm"
        program = str(fetched) if fetched.exists() else shutil.which("helm")
        if program is None:
            raise SystemExit("error: there is no helm; run `.setup/install deploy`")
        self.folder = Path(folder)
        shutil.copy(program, self.folder / "helm")
        shutil.copytree(CHART, self.folder / "clew")
        self.command = [str(self.folder / "helm")]
        if os.getuid() == 0:
            user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
            self.command = [*without_network(), "setpriv", *user, *self.command]
            for path in [self.folder, *self.folder.rglob("*")]:
                path.chmod(0o755 if path.is_dir() or path.name == "helm" else 0o644)

    def run(self, *arguments):
        """What helm prints; refused if it complains."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        ran = subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if ran.returncode != 0:
            raise Refused(ran.stderr.strip() or ran.stdout.strip())
        return ran.stdout

    def values(self, examples, settings):
        """Arguments for values out of examples of the chart, and for single ones."""
        files = [f"--values=clew/examples/{example}.yaml" for example in examples]
        return [*files, *(f"--set={setting}" for setting in settings)]

    def lint(self, examples=(), settings=()):
        self.run("lint", "--strict", "clew", *self.values(examples, settings))

    def render(self, examples=(), settings=(), release=RELEASE):
        """The chart's manifests as text."""
        where = [f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}"]
        return self.run("template", release, "clew", *where, *self.values(examples, settings))

    def notes(self, examples=(), settings=()):
        """What a person is told after an installation. Helm tells it only with a cluster at hand, unless it is a file
        like others."""
        noted = self.folder / "noted"
        shutil.copytree(self.folder / "clew", noted, dirs_exist_ok=True)
        lines = (noted / "templates/NOTES.txt").read_text().splitlines()
        (noted / "templates/told.yaml").write_text("told: |\n" + "".join(f"  {line}\n" for line in lines))
        arguments = [f"--kube-version={KUBERNETES}", "--show-only=templates/told.yaml"]
        told = self.run("template", RELEASE, "noted", *arguments, *self.values(examples, settings))
        return yaml.safe_load(told)["told"]


def without_network():
    """The beginning of a command that gets no network, where this machine can do that."""
    command = ["unshare", "--net"]
    return command if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode == 0 else []


def temporary():
    """A folder for a [Helm]."""
    return tempfile.TemporaryDirectory(prefix="clew-deploy-")


def kustomize():
    """The command that builds overlays, or None where there is none."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    return None


def build(overlay):
    """The manifests of an overlay as text."""
    command = [*kustomize(), str(K8S / overlay)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if ran.returncode != 0:
        raise Refused(ran.stderr.strip())
    return ran.stdout


def objects(text):
    """The objects of manifests."""
    return [found for found in yaml.safe_load_all(text) if found]


def configuration(found):
    """The configuration that the objects hold for the programs."""
    (text,) = [o["data"]["clew.toml"] for o in found if o["kind"] == "ConfigMap" and "clew.toml" in o["data"]]
    return tomllib.loads(text)


def kustomize_files(helm):
    """The files below k8s that are made of the chart: path -> content.

    Overlays patch them, so that what is Helm's goes: its labels, the namespace, and the configuration's checksum, in
    place of which kustomize names the configuration after its content.
    """
    files = {}
    for document in helm.render(["kustomize"], ["serviceMonitor.enabled=true", "ingest.enabled=true"]).split("\n---\n"):
        source, _, text = document.removeprefix("---\n").partition("\n")
        found = yaml.safe_load(text)
        if not found:
            continue
        if found["kind"] == "ConfigMap":
            files["base/clew.toml"] = found["data"]["clew.toml"]
            continue
        component = found["metadata"]["labels"]["app.kubernetes.io/component"]
        folder = f"components/{component}" if component in COMPONENTS else "base"
        path = f"{folder}/{source.rpartition('/')[2]}"
        helms = ("helm.sh/chart:", "app.kubernetes.io/managed-by:", "namespace: clew")
        lines = [line for line in text.rstrip().split("\n") if not line.strip().startswith(helms)]
        files[path] = files.get(path, "") + "---\n" * (path in files) + without_checksum(lines) + "\n"
    return files


def without_checksum(lines):
    """The lines without the pods' annotations, which hold nothing but the checksum."""
    kept = []
    for line in lines:
        if line.strip().startswith("checksum/config:"):
            # `annotations:` and the comment.
            del kept[-2:]
        else:
            kept.append(line)
    return "\n".join(kept)
