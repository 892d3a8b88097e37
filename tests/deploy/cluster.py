"""Builds the images and runs the chart's pods on this machine, as Kubernetes would run them.

Run as `make deploy-test`, as root on Linux. There is no Kubernetes: each pod that the chart renders becomes a
container in a network of its own, with the image, user, root file system, capabilities, memory, variables, arguments,
volumes and probes that its manifest says. Then the ingestion Job reads files, a client searches and asks, a retriever
is told to end and the other one answers in its place, and in the end all end by themselves within their time.
Connections are encrypted, callers show their keys, and everything is kept in a bucket.

The programs are those of this machine's build, and the images' base is made of Debian's packages, because neither
can be fetched everywhere; all else is as the Containerfile says.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bucket
import certificates
import manifests
import network
import rules
from engine import PREBUILT, REPOSITORY, TAG, Engine, Failure, run
from manifests import NAMESPACE, WORKSPACE, Helm
from pods import SUBNET, Network, Pod

PROGRAMS = ["clew-gateway", "clew-retriever", "clew-memory-encoder", "clew-generator", "clew-graph-builder", "clew"]
# Debian packages of the base: what distroless' `cc` has, without a shell.
BASE_PACKAGES = "libc6,libgcc-s1"
REDIS_PACKAGES = "redis-server"
# Seconds in which a search has to find what is there: a shard that moves is missing for a moment.
SEARCH_PATIENCE = 60
SHARDS = 8
DOCUMENTS = {
    "backups.md": "# Backups\n\nBackups of the harbour office are kept for ninety days in the lighthouse.\n",
    "ferries.md": "# Ferries\n\nThe night ferry to Bergen leaves at a quarter past nine.\n",
}
SETTINGS = [
    f"image.repository={REPOSITORY}",
    f"image.tag={TAG}",
    "image.pullPolicy=Never",
    f"redis.image={REPOSITORY}/redis:{TAG}",
    f"config.data_dir=s3://{bucket.NAME}/some/where",
    "config.storage.s3.allow_http=true",
    "config.encoder.threads=1",
    "retriever.replicas=2",
    "memoryEncoder.replicas=1",
    "generator.replicas=1",
    "graphBuilder.replicas=1",
    "ingest.enabled=true",
    "ingest.corpus=harbour",
]


class Cluster:
    """All pods of the chart, and what they share."""

    def __init__(self, engine, network, folder, model, endpoint):
        self.engine, self.network, self.folder = engine, network, folder
        with manifests.temporary() as copy:
            settings = [f"config.encoder.model=/models/{model.name}", f"config.storage.s3.endpoint={endpoint}"]
            self.objects = manifests.objects(Helm(copy).render(["bucket"], [*SETTINGS, *settings]))
        self.claims = {
            "clew-models": model.parent,
            "clew-input": folder / "input",
        }
        self.claims["clew-input"].mkdir()
        for name, text in DOCUMENTS.items():
            (self.claims["clew-input"] / name).write_text(text)
        self.pods = {}
        issued = certificates.of_a_cluster(network.ROLES, [f"clew-gateway.{NAMESPACE}.svc"])
        self.secrets = {
            **{f"clew-tls-{role}": secret for role, secret in issued.items()},
            "clew-redis": {"password": "RedisOfTheDeployTest"},
            "clew-s3": bucket.CREDENTIALS,
            **self.keys(),
        }

    def keys(self):
        """The Secrets of an API key: its hash, for the gateways, and the key itself, for whoever calls."""
        command = ["key", "deploy-test", "--tenant=office", "--scope=read,write,admin", "--json"]
        made = self.engine.run("--rm", "--network=none", f"{REPOSITORY}/clew:{TAG}", *command)
        key = json.loads(made)
        return {"clew-api-keys": {"keys.toml": key["stored"]}, "clew-ingest": {"key": key["key"]}}

    def volume(self, kind, source):
        """The folder of this machine that a volume is."""
        if kind == "persistentVolumeClaim":
            return self.claims[source["claimName"]]
        if kind == "configMap":
            name = source["name"]
            (files,) = [o["data"] for o in rules.of_kind(self.objects, "ConfigMap") if o["metadata"]["name"] == name]
        else:
            name = source["secretName"]
            files = self.secrets[name]
        if "items" in source:
            files = {item["path"]: files[item["key"]] for item in source["items"]}
        path = self.folder / "-".join([kind, name, *files])
        if not path.exists():
            path.mkdir()
            for file, text in files.items():
                (path / file).write_text(text)
                # As `fsGroup` does.
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
        """Runs the Job to its end."""
        (found,) = rules.of_kind(self.objects, "Job")
        Pod(found["metadata"]["name"], found["spec"]["template"], self).start()

    def client(self, *arguments, with_key=True):
        """What the command line says, run by a client in a container like the Job's."""
        (found,) = rules.of_kind(self.objects, "Job")
        pod = Pod(f"client-{self.network.count}", found["spec"]["template"], self)
        variables = [v for v in pod.container["env"] if with_key or v["name"] != "CLEW_API_KEY"]
        pod.container = {**pod.container, "args": [*arguments, "--json"], "env": variables}
        return json.loads(pod.start("--rm"))

    def search(self):
        """Searches until the right document comes first."""
        until = time.monotonic() + SEARCH_PATIENCE
        while True:
            found = self.client("search", "--corpus=harbour", "where are backups kept")
            documents = [item["document_id"] for item in found["evidence"]]
            if documents and documents[0] == "input/backups.md" and not found["shards_missing"]:
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

    since = time.monotonic()
    # Of several shards, so that the retriever that leaves has some to hand over.
    cluster.client("corpus", "create", "harbour", f"--shards={SHARDS}")
    cluster.job()
    say(f"a corpus of {SHARDS} shards was made, and the Job took its files in", since)

    since = time.monotonic()
    cluster.search()
    answer = cluster.client("ask", "--corpus=harbour", "How long are backups kept?")
    if "ninety days" not in json.dumps(answer["answer"]):
        raise Failure(f"the answer is {answer}")
    try:
        cluster.client("search", "--corpus=harbour", "where are backups kept", with_key=False)
    except Failure as error:
        if "authorization" not in str(error):
            raise
    else:
        raise Failure("a client without a key was answered")
    say("a client found and was answered, and one without a key was not", since)

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
        with Network() as network, bucket.Bucket(f"{SUBNET}.1") as storage:
            cluster = Cluster(engine, network, folder, arguments.model.resolve(), storage.endpoint)
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
