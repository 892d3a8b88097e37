"""Holds the chart's values to what the programs say of their own configuration.

The programs are asked, not their source: `serve --print-config` tells the defaults, an unknown key is refused with
the names of those that are known, and a value out of range is refused by name.
"""

import copy
import json
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from manifests import CHART, tomllib

# Keys of the programs that are none of the chart, and why.
OTHERS = {
    "judge": "only `clew eval answers` reads it",
    "ingest": "only `clew ingest` reads it; its Job has values of its own",
    "encoder.fetch_model": "only the program `clew` fetches a model",
    "cluster.node_id": "each pod's own, set by the chart",
    "cluster.advertise": "each pod's own, set by the chart",
}
# Keys whose default in the chart is another, because in a cluster it has to be.
DIFFERENT = {
    "listen",
    "data_dir",
    "encoder.model",
    "tls.certificate",
    "tls.key",
    "tls.ca",
    "auth.keys_file",
    "admin.listen",
}
# What has to be set beside a key for its smallest and its largest value to be taken.
COMPANIONS = {
    "cluster.heartbeat_ms": {"member_ttl_ms": 600000},
    "cluster.member_ttl_ms": {"heartbeat_ms": 20},
    "cluster.lease_renew_ms": {"lease_ttl_ms": 600000},
    "cluster.lease_ttl_ms": {"lease_renew_ms": 20},
}
# A value that is taken, for keys that have to be there.
SAMPLES = {
    "url": "http://host:1/v1",
    "model": "/models/a",
    "dimension": 8,
    "id": "a",
    "address": "http://host:1",
    "roles": ["gateway"],
}
PATIENCE = 30


def schema():
    return json.loads((CHART / "values.schema.json").read_text())


def defaults():
    """The chart's values as they are without any of the user's."""
    return yaml.safe_load((CHART / "values.yaml").read_text())


def toml(value):
    """A value in TOML, tables inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class Program:
    """`clew serve --print-config`, which knows the keys of all services."""

    def __init__(self, path):
        self.path = path

    def print_config(self, config):
        """The effective configuration on top of `config`, or what is wrong with that."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "clew.toml"
            file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in config.items()))
            ran = subprocess.run(
                [self.path, "serve", "--print-config", "--config", file],
                cwd=folder,
                env={},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        return (tomllib.loads(ran.stdout), None) if ran.returncode == 0 else (None, ran.stderr)

    def keys(self, table):
        """The keys that a table may have."""
        _config, problem = self.print_config(table.around({"no_such_key": 1}))
        assert problem and "no_such_key" in problem, f"{table.key('no_such_key')} was not refused: {problem}"
        return set(re.findall(r"`(\w+)`", problem.partition("expected ")[2]))


class Table:
    """A table of the configuration, as the schema has it."""

    def __init__(self, path, properties, required, holds):
        self.path, self.properties, self.required, self.holds = path, properties, required, holds

    def around(self, keys):
        """A configuration whose only table is this one, with the keys and what has to be beside them."""
        beside = {key: SAMPLES[key] for key in self.required if key in SAMPLES and key not in keys}
        value = {**beside, **keys}
        if self.holds == "list":
            value = [value]
        for name in reversed(self.path.split(".")) if self.path else ():
            value = {name: value}
        return value

    def key(self, name):
        return f"{self.path}.{name}" if self.path else name


def tables(whole, part, path="", holds="one"):
    """All tables of the configuration that the schema describes, lists of tables included."""
    part = resolve(whole, part)
    if part.get("type") == "array":
        items = resolve(whole, part["items"])
        if items.get("type") == "object":
            yield from tables(whole, items, path, "list")
    elif "properties" in part:
        table = Table(path, {k: resolve(whole, v) for k, v in part["properties"].items()}, part["required"], holds)
        yield table
        for name, below in table.properties.items():
            yield from tables(whole, below, table.key(name))


def resolve(whole, part):
    """A part of the schema without references, and without the choice of `null`."""
    if "anyOf" in part:
        (part,) = [choice for choice in part["anyOf"] if choice != {"type": "null"}]
    if "$ref" in part:
        return resolve(whole, whole["definitions"][part["$ref"].rpartition("/")[2]])
    return part


def breaches(clew, whole, ours):
    """Every difference between the programs and the chart, of which these are the schema and the values."""
    program = Program(clew)
    found = list(tables(whole, whole["properties"]["config"]))
    yield from keys_differ(program, found[:1])
    sections = program.keys(found[0])
    # A section that the programs do not have was told just now.
    found = [table for table in found[1:] if table.path.partition(".")[0] in sections]
    yield from keys_differ(program, found)
    yield from defaults_differ(program, found, ours["config"])
    yield from ranges_differ(program, found)


def keys_differ(program, found):
    for table in found:
        programs = {key for key in program.keys(table) if table.key(key) not in OTHERS}
        for key in sorted(programs ^ set(table.properties)):
            where = "the programs" if key in programs else "the chart's schema"
            yield f"config.{table.key(key)}: only {where} know it"


def defaults_differ(program, found, ours):
    theirs, problem = program.print_config({})
    assert theirs, problem

    def at(config, path):
        for name in path.split("."):
            config = config.get(name) if isinstance(config, dict) else None
        return config

    for table in found:
        if table.holds == "list" or (table.path and at(ours, table.path) is None):
            continue
        told = set(ours if not table.path else at(ours, table.path))
        for name, part in table.properties.items():
            key = table.key(name)
            if name not in told:
                yield f"config.{key}: is missing in values.yaml"
            elif "properties" not in part and key not in DIFFERENT and at(ours, key) != at(theirs, key):
                yield f"config.{key}: is {at(ours, key)} in values.yaml, and {at(theirs, key)} in the programs"


def ranges_differ(program, found):
    """The smallest and the largest value of the schema are taken, and those beyond them refused by name."""
    wanted = []
    for table in found:
        for name, part in table.properties.items():
            beside = COMPANIONS.get(table.key(name), {})
            if "minimum" in part:
                step = 1 if "integer" in part["type"] else 0.5
                edges = (part["minimum"], part["maximum"])
                wanted += [(table, name, {name: edge, **beside}, True) for edge in edges]
                beyond = (part["minimum"] - step, part["maximum"] + step)
                wanted += [(table, name, {name: value}, False) for value in beyond]
            for word in part.get("enum", []):
                beside = {"api_version": "1"} if word == "azure" else {}
                wanted.append((table, name, {name: word, **beside}, True))
            if "enum" in part:
                wanted.append((table, name, {name: "no_such_word"}, False))

    def ask(case):
        table, name, keys, is_good = case
        _config, problem = program.print_config(table.around(copy.deepcopy(keys)))
        key = f"config.{table.key(name)}"
        if is_good and problem:
            return f"{key}: the schema takes {keys[name]}, the programs do not: {problem.strip()}"
        if not is_good and (not problem or name not in problem):
            return f"{key}: the schema refuses {keys[name]}, the programs say: {problem or 'nothing'}"
        return None

    with ThreadPoolExecutor() as threads:
        yield from filter(None, threads.map(ask, wanted))


# Values that are refused, with a part of what the refusal says: of the schema, and of the chart's own check.
WRONG = [
    ("gateway.replica=3", "replica is not allowed"),
    ("conifg.listen=0.0.0.0:1", "conifg is not allowed"),
    ("config.encoder.thread=3", "thread is not allowed"),
    ("config.listen=0.0.0.0", "config.listen"),
    ("config.listen=:7421", "config.listen"),
    ("config.http.listen=0.0.0.0", "config.http.listen"),
    ("config.http.listen=0.0.0.0:7421", "config.http.listen: expected another port"),
    ("config.http.allowed_origins[0]=*", "config.http.allowed_origins.0"),
    ("config.http.allowed_hosts[0]=http://clew", "config.http.allowed_hosts.0"),
    ("config.shutdown_secs=0", "config.shutdown_secs: Must be greater than or equal to 1"),
    ("config.shutdown_secs=soon", "config.shutdown_secs: Invalid type"),
    ("config.data_dir=gs://bucket/clew", "config.data_dir"),
    ("config.data_dir=/var/lib/clew", "config.data_dir"),
    ("config.data_dir=", "config.data_dir: expected s3://bucket/prefix, or a folder below /data"),
    ("config.data_dir=/data", "retriever.dataVolume: expected a volume"),
    ("config.storage.s3.endpoint=s3.example.org", "config.storage.s3.endpoint"),
    ("config.cluster.redis=redis://:password@host:6379", "config.cluster.redis"),
    ("config.cluster.redis=redis://host:6379", "set redis.enabled=false"),
    ("config.cluster.redis_prefix=A b", "config.cluster.redis_prefix"),
    ("config.cluster.heartbeat_ms=1", "config.cluster.heartbeat_ms"),
    ("config.telemetry.trace_ratio=2", "config.telemetry.trace_ratio"),
    ("config.encoder.device=gpu", "config.encoder.device"),
    ("config.encoder.device=cuda:0", "memoryEncoder.gpus: is 0, but"),
    ("config.encoder.model=all-MiniLM-L6-v2", "config.encoder.model"),
    ("config.encoder.model=null", "config.encoder.model: expected a folder, or config.encoder.endpoint"),
    ("config.encoder.endpoint.url=ftp://host", "config.encoder.endpoint"),
    (
        "config.encoder.endpoint.url=http://host,config.encoder.endpoint.model=a,config.encoder.endpoint.dimension=8",
        "config.encoder.endpoint: expected config.encoder.model=null",
    ),
    ("config.reranker.endpoint.dialect=morse", "config.reranker.endpoint"),
    ("config.graph_builder.reader=magic", "config.graph_builder.reader"),
    ("config.generator.endpoint.url=ftp://host", "config.generator.endpoint"),
    ("config.generator.endpoint.api_key=sk-123", "config.generator.endpoint"),
    ("memoryEncoder.gpus=1", "memoryEncoder.gpus: is 1, but"),
    ("generator.gpus=1", "generator.gpus: is 1, but"),
    ("secrets.tls=", "which config.auth.insecure=true allows"),
    ("secrets.apiKeys=", "which config.auth.insecure=true allows"),
    ("secrets.apiKeys=Clew Keys", "secrets.apiKeys"),
    ("config.auth.insecure=true", "config.auth.insecure: expected false"),
    ("config.auth.insecure=true,secrets.tls=", "config.auth.insecure: expected false"),
    ("redis.enabled=false,secrets.redis=", "redis.enabled: is off"),
    ("gateway.service.type=ExternalName", "gateway.service.type"),
    ("gateway.service.port=70000", "gateway.service.port"),
    ("gateway.autoscaling.minReplicas=11", "gateway.autoscaling.minReplicas: is more than"),
    ("gateway.autoscaling.queueDepth=null,gateway.autoscaling.cpuPercent=null", "got neither"),
    ("retriever.replicas=-1", "retriever.replicas"),
    ("retriever.resources.limits.memory=lots", "retriever.resources.limits.memory"),
    ("retriever.resources.limit.memory=1Gi", "limit is not allowed"),
    ("models.volume.hostPath.path=/models", "models.volume"),
    ("networkPolicy.storage[0].ports[0].port=0", "networkPolicy.storage.0.ports.0"),
    ("networkPolicy.clients[0].nameSpaceSelector.matchLabels.a=b", "nameSpaceSelector is not allowed"),
    ("serviceMonitor.interval=30", "serviceMonitor.interval"),
    ("ingest.enabled=true,config.tls.client_ca=/etc/clew/tls/clients.crt", "ingest.enabled: the Job has no"),
    ("ingest.corpus=Hand Book", "ingest.corpus"),
    ("ingest.paths[0]=/data", "ingest.paths.0"),
    ("ingest.root=input", "ingest.root"),
    ("ingest.parts=0", "ingest.parts"),
    ("ingest.paths[0]=gs://source/wiki", "ingest.paths.0"),
    ("ingest.s3.endpoint=source:9000", "ingest.s3.endpoint"),
    ("image.pullPolicy=Sometimes", "image.pullPolicy"),
]
