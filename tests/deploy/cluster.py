"""Builds the images and runs the chart's pods on this machine, as Kubernetes would run them.

Run as `make deploy-test`, as root on Linux. There is no Kubernetes: each pod that the chart renders becomes a
container in a network of its own, with the image, user, root file system, capabilities, memory, variables, arguments,
volumes and probes that its manifest says. Then the ingestion Job reads files, a client searches and asks, a retriever
is told to end and the other one answers in its place, and in the end all end by themselves within their time.

The programs are those of this machine's build, and the images' base is made of Debian's packages, because neither
can be fetched everywhere; all else is as the Containerfile says.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import manifests
import rules
from manifests import NAMESPACE, WORKSPACE, Helm

PROGRAMS = ["clew-gateway", "clew-retriever", "clew-memory-encoder", "clew-generator", "clew-graph-builder", "clew"]
# Where the Containerfile looks for programs that are built already.
PREBUILT = WORKSPACE / ".cache/images/programs"
REPOSITORY, TAG = "localhost/clew", "deploy-test"
# Debian packages of the base: what distroless' `cc` has, without a shell.
BASE_PACKAGES = "libc6,libgcc-s1"
REDIS_PACKAGES = "redis-server"
# Debian 12's runc with podman 4.3: more than these limits it does not get.
ULIMITS = ["--ulimit=nofile=20000:20000", "--ulimit=nproc=1000:1000"]
SUBNET = "10.213.7"
# Seconds that an image may take to be built, a pod to get ready, and a client's command to end.
BUILD_PATIENCE = 300
START_PATIENCE = 120
CLIENT_PATIENCE = 120
SHARDS = 8
SECRETS = {"clew-redis": {"password": "RedisOfTheDeployTest"}}
DOCUMENTS = {
    "backups.md": "# Backups\n\nBackups of the harbour office are kept for ninety days in the lighthouse.\n",
    "ferries.md": "# Ferries\n\nThe night ferry to Bergen leaves at a quarter past nine.\n",
}
SETTINGS = [
    f"image.repository={REPOSITORY}",
    f"image.tag={TAG}",
    "image.pullPolicy=Never",
    f"redis.image={REPOSITORY}/redis:{TAG}",
    "secrets.redis=clew-redis",
    "config.encoder.threads=1",
    "retriever.replicas=2",
    "ingest.enabled=true",
    "ingest.corpus=harbour",
]


def run(*command, patience=BUILD_PATIENCE, **options):
    """What a command prints; ends the test if it fails."""
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=patience, **options)
    if ran.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))} failed with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Failure(Exception):
    """What did not go as it should."""


class Engine:
    """buildah and podman, with a storage of their own that goes with its folder."""

    def __init__(self, folder):
        self.storage = [f"--root={folder}/storage", f"--runroot={folder}/running"]

    def podman(self, *arguments, **options):
        return run("podman", *self.storage, "--runtime=runc", *arguments, **options)

    def import_debian(self, folder, name, packages):
        """An image of nothing but some packages of Debian and what they need."""
        archive = folder / f"{name}.tar"
        run("mmdebstrap", "--quiet", "--variant=extract", f"--include={packages}", "bookworm", str(archive))
        self.podman("import", "--quiet", str(archive), f"{REPOSITORY}/{name}:{TAG}")
        archive.unlink()

    def build(self, target):
        """An image of the Containerfile, with the programs of this machine."""
        arguments = {"PROGRAMS": "prebuilt", "BASE_IMAGE": f"{REPOSITORY}/base:{TAG}"}
        given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        how = ["--isolation=chroot", "--pull-never", "--layers", "--quiet"]
        tag = f"--tag={REPOSITORY}/{target}:{TAG}"
        run("buildah", *self.storage, "build", *how, *given, f"--target={target}", tag, str(WORKSPACE))
        (image,) = json.loads(self.podman("image", "inspect", f"{REPOSITORY}/{target}:{TAG}"))
        return image


class Network:
    """A bridge on this machine and a network namespace for each pod."""

    def __init__(self):
        self.bridge, self.count, self.namespaces = "clew-deploy", 0, []

    def __enter__(self):
        # What a killed run left.
        subprocess.run(["ip", "link", "del", self.bridge], stderr=subprocess.DEVNULL)
        for line in run("ip", "netns", "list").splitlines():
            if line.startswith(f"{self.bridge}-"):
                run("ip", "netns", "del", line.split()[0])
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "add", f"{SUBNET}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        return self

    def host(self):
        """A namespace with an address: (name, address)."""
        self.count += 1
        name, address = f"{self.bridge}-{self.count}", f"{SUBNET}.{self.count + 1}"
        outside = f"clewdep{self.count}"
        run("ip", "netns", "add", name)
        self.namespaces.append(name)
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", outside, "master", self.bridge, "up")
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        return name, address

    def __exit__(self, *_error):
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False)


class Pod:
    """One pod: what a kubelet would make of its template."""

    def __init__(self, name, template, cluster):
        self.name, self.cluster = name, cluster
        self.labels, self.spec = template["metadata"]["labels"], template["spec"]
        (self.container,) = self.spec["containers"]
        self.namespace, self.address = cluster.network.host()
        self.grace = self.spec.get("terminationGracePeriodSeconds", 30)

    def environment(self):
        fields = {"metadata.name": self.name, "status.podIP": self.address}
        known = {}
        for variable in self.container.get("env", []):
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                value = self.cluster.secrets[reference["name"]][reference["key"]]
            else:
                value = self.expand(variable["value"], known)
            known[variable["name"]] = value
        return known

    @staticmethod
    def expand(text, known):
        return re.sub(r"\$\((\w+)\)", lambda found: known[found.group(1)], text)

    def mounts(self):
        """Arguments for the container's volumes."""
        volumes = {volume["name"]: rules.volume_source(volume) for volume in self.spec.get("volumes", [])}
        for mount in self.container.get("volumeMounts", []):
            kind, source = volumes[mount["name"]]
            path = mount["mountPath"]
            if kind == "emptyDir":
                size = int(rules.quantity(source["sizeLimit"]))
                yield f"--tmpfs={path}:rw,mode=1777,size={size}"
                continue
            folder = self.cluster.volume(kind, source)
            yield f"--volume={folder}:{path}:{'ro' if mount.get('readOnly') else 'rw'}"

    def command(self):
        """Arguments of `podman run` from the image on."""
        known = self.environment()
        words = [self.expand(word, known) for word in self.container.get("args", [])]
        command = self.container.get("command", [])
        return [*([f"--entrypoint={json.dumps(command)}"] if command else []), self.container["image"], *words]

    def confinement(self):
        """Arguments for what the container may do."""
        pod, own = self.spec["securityContext"], self.container["securityContext"]
        assert own["readOnlyRootFilesystem"] and own["capabilities"] == {"drop": ["ALL"]}
        assert own["allowPrivilegeEscalation"] is False
        user = f"--user={pod['runAsUser']}:{pod['runAsGroup']}"
        confined = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"]
        memory = int(rules.quantity(self.container["resources"]["limits"]["memory"]))
        return [*confined, user, f"--memory={memory}", *ULIMITS]

    def start(self, *how):
        """Starts the container and returns what podman prints."""
        names = [f"--add-host={name}:{address}" for name, address in self.cluster.names().items()]
        variables = [f"--env={name}={value}" for name, value in self.environment().items()]
        network = [f"--network=ns:/run/netns/{self.namespace}", *names]
        confined = [*self.confinement(), "--no-healthcheck", "--pull=never", f"--name={self.name}"]
        patience = self.grace + CLIENT_PATIENCE
        arguments = [*how, *confined, *network, *variables, *self.mounts(), *self.command()]
        return self.cluster.engine.podman("run", *arguments, patience=patience)

    def probe(self, name):
        """Whether a probe of the container succeeds now."""
        ask = self.container.get(name)
        if ask is None:
            return True
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        if "tcpSocket" in ask:
            return self.answers_tcp(ports[ask["tcpSocket"]["port"]])
        url = f"http://{self.address}:{ports[ask['httpGet']['port']]}{ask['httpGet']['path']}"
        try:
            with urllib.request.urlopen(url, timeout=ask.get("timeoutSeconds", 1)) as answer:
                return 200 <= answer.status < 400
        except OSError:
            return False

    def answers_tcp(self, port):
        try:
            socket.create_connection((self.address, port), timeout=1).close()
        except OSError:
            return False
        return True

    def wait_until_ready(self):
        until = time.monotonic() + START_PATIENCE
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            while not self.probe(probe):
                running = self.cluster.engine.podman("inspect", "--format={{.State.Running}}", self.name).strip()
                if running != "true" or time.monotonic() > until:
                    raise Failure(f"{self.name}: {probe} did not succeed; its log:\n{self.log()}")
                time.sleep(0.2)

    def log(self):
        ran = subprocess.run(
            ["podman", *self.cluster.engine.storage, "logs", self.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        return ran.stdout.decode(errors="replace")

    def stop(self):
        """Has the pod end as Kubernetes does; it has to by itself, and within its time."""
        since = time.monotonic()
        self.cluster.engine.podman("stop", f"--time={self.grace}", self.name, patience=self.grace + CLIENT_PATIENCE)
        took = time.monotonic() - since
        code = self.cluster.engine.podman("inspect", "--format={{.State.ExitCode}}", self.name).strip()
        if code != "0":
            raise Failure(f"{self.name}: ended with {code} after {took:.0f} of {self.grace} s; its log:\n{self.log()}")
        return took


class Cluster:
    """All pods of the chart, and what they share."""

    def __init__(self, engine, network, folder, model):
        self.engine, self.network, self.folder, self.secrets = engine, network, folder, SECRETS
        with manifests.temporary() as copy:
            settings = [*SETTINGS, f"config.encoder.model=/models/{model.name}"]
            self.objects = manifests.objects(Helm(copy).render(["trial"], settings))
        self.claims = {
            "clew-models": model.parent,
            "clew-data": self.new_folder("data"),
            "clew-input": self.new_folder("input"),
        }
        for name, text in DOCUMENTS.items():
            (self.claims["clew-input"] / name).write_text(text)
        self.pods = {}

    def new_folder(self, name):
        path = self.folder / name
        path.mkdir()
        # As `fsGroup` does with a volume.
        os.chown(path, 0, 65532)
        path.chmod(0o2775)
        return path

    def volume(self, kind, source):
        """The folder of this machine that a volume is."""
        if kind == "persistentVolumeClaim":
            return self.claims[source["claimName"]]
        name = source["name"] if kind == "configMap" else source["secretName"]
        path = self.folder / f"{kind}-{name}"
        if not path.exists():
            path.mkdir()
            if kind == "configMap":
                (found,) = [o for o in self.objects if (o["kind"], o["metadata"]["name"]) == ("ConfigMap", name)]
                files = found["data"]
            else:
                files = self.secrets[name]
            for file, text in files.items():
                (path / file).write_text(text)
                os.chown(path / file, 0, 65532)
                (path / file).chmod(source.get("defaultMode", 0o644))
        return path

    def names(self):
        """The names of Services, each with the address of a pod that it selects."""
        names = {}
        for service in rules.of_kind(self.objects, "Service"):
            for pod in self.pods.values():
                if rules.selects(service["spec"]["selector"], pod.labels):
                    name = service["metadata"]["name"]
                    names[name] = names[f"{name}.{NAMESPACE}.svc"] = pod.address
        return names

    def make_pods(self):
        """The pods of all workloads; of a Job none yet."""
        for found in rules.of_kind(self.objects, "Deployment", "StatefulSet"):
            for number in range(found["spec"].get("replicas", 1)):
                name = f"{found['metadata']['name']}-{number}"
                self.pods[name] = Pod(name, found["spec"]["template"], self)
        # Redis and encoders first, only so that nobody waits for them.
        order = ["redis", "memory-encoder"]
        place = lambda pod: order.index(pod.container["name"]) if pod.container["name"] in order else len(order)
        return sorted(self.pods.values(), key=place)

    def job(self):
        """Runs the Job to its end and returns its log."""
        (found,) = rules.of_kind(self.objects, "Job")
        pod = Pod(found["metadata"]["name"], found["spec"]["template"], self)
        return pod.start()

    def client(self, *arguments):
        """What the command line says, run by a client in a container like the Job's."""
        (found,) = rules.of_kind(self.objects, "Job")
        pod = Pod(f"client-{self.network.count}", found["spec"]["template"], self)
        endpoint = [argument for argument in pod.container["args"] if argument.startswith("--endpoint=")]
        pod.container = {**pod.container, "args": [*arguments, *endpoint, "--json"]}
        return json.loads(pod.start("--rm"))

    def search(self):
        """Searches until it finds: a shard that moves is missing for a moment."""
        until = time.monotonic() + CLIENT_PATIENCE
        while True:
            found = self.client("search", "--corpus=harbour", "where are backups kept")
            titles = [item["document_id"] for item in found["evidence"]]
            if titles and titles[0].endswith("backups.md"):
                return
            if time.monotonic() > until:
                raise Failure(f"the search finds {found}")


def say(text, since):
    print(f"ok  {text} ({time.monotonic() - since:.1f} s)", flush=True)


def build_images(engine, folder, programs):
    PREBUILT.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        run("strip", "-o", str(PREBUILT / program), str(programs / program))
    since = time.monotonic()
    engine.import_debian(folder, "base", BASE_PACKAGES)
    engine.import_debian(folder, "redis", REDIS_PACKAGES)
    say("base images made of Debian's packages", since)
    for program in PROGRAMS:
        since = time.monotonic()
        target = program.removeprefix("clew-")
        image = engine.build(target)
        if image["Config"]["User"] != "65532:65532" or image["Config"]["Entrypoint"] != [program]:
            raise Failure(f"the image of {target} runs {image['Config']}")
        say(f"image {target}, {image['Size'] // 2**20} MiB", since)


def play(cluster):
    since = time.monotonic()
    pods = cluster.make_pods()
    for pod in pods:
        pod.start("--detach")
    for pod in pods:
        pod.wait_until_ready()
    say(f"{len(pods)} pods are ready", since)

    # Of several shards, so that the retriever that leaves has some to hand over.
    cluster.client("corpus", "create", "harbour", f"--shards={SHARDS}")
    since = time.monotonic()
    cluster.job()
    say("the Job took its files in", since)

    since = time.monotonic()
    cluster.search()
    answer = cluster.client("ask", "--corpus=harbour", "How long are backups kept?")
    if "ninety days" not in json.dumps(answer["answer"]):
        raise Failure(f"the answer is {answer}")
    say("a client found and was answered", since)

    since = time.monotonic()
    leaving = cluster.pods.pop("clew-retriever-0")
    took = leaving.stop()
    cluster.search()
    say(f"a retriever handed over in {took:.1f} of {leaving.grace} s; the other one answers", since)

    since = time.monotonic()
    for pod in reversed(pods):
        if pod is not leaving:
            pod.stop()
    say("all ended by themselves", since)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True, type=Path, help="the folder of the programs")
    parser.add_argument("--model", type=Path, default=WORKSPACE / ".cache/models/all-MiniLM-L6-v2")
    arguments = parser.parse_args()
    if sys.platform != "linux" or os.getuid() != 0:
        sys.exit("error: this needs root on Linux")
    folder = Path(tempfile.mkdtemp(prefix="clew-deploy-"))
    engine = Engine(folder)
    problem = None
    try:
        build_images(engine, folder, arguments.programs)
        with Network() as network:
            cluster = Cluster(engine, network, folder, arguments.model.resolve())
            try:
                play(cluster)
            finally:
                engine.podman("rm", "--all", "--force", "--time=0")
    except (Failure, subprocess.TimeoutExpired) as error:
        problem = error
    finally:
        subprocess.run(["umount", "--recursive", f"{folder}/storage/overlay"], stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
    if problem:
        sys.exit(f"error: {problem}")


if __name__ == "__main__":
    main()
