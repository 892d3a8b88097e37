"""Proves that each rule finds what it is for: good manifests with one fault each, and what has to be said of it."""

import copy

import network
import rules
import values


def find(objects, kind, name):
    (found,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def pod(objects, kind="StatefulSet", name="clew-retriever"):
    return find(objects, kind, name)["spec"]["template"]["spec"]


def container(objects, kind="StatefulSet", name="clew-retriever"):
    return pod(objects, kind, name)["containers"][0]


def job(objects):
    (found,) = [o for o in objects if o["kind"] == "Job"]
    return found


def policy(objects, name):
    return find(objects, "NetworkPolicy", name)["spec"]


def remove(objects, kind, name):
    objects.remove(find(objects, kind, name))


# What is done to good manifests, and a part of what has to be said of it.
FAULTS = [
    # The six that schemas miss.
    (
        lambda o: find(o, "Deployment", "clew-gateway")["spec"]["selector"]["matchLabels"].update(tier="front"),
        "Deployment clew-gateway: selector does not match the labels of its pods",
    ),
    (
        lambda o: container(o)["ports"].append({"name": "administration-port", "containerPort": 9999}),
        "port name `administration-port` is not 1 to 15",
    ),
    (
        lambda o: find(o, "Service", "clew-gateway")["spec"]["ports"][0].update(port=70000),
        "Service clew-gateway: port is 70000, expected 1 to 65535",
    ),
    (
        lambda o: container(o)["volumeMounts"].append({"name": "cache", "mountPath": "/cache"}),
        "mounts cache, which is no volume",
    ),
    (
        lambda o: container(o)["resources"]["requests"].update(memory="5Gi"),
        "requests more memory than its limit of 4Gi",
    ),
    (
        lambda o: find(o, "Service", "clew-gateway")["spec"]["ports"].append({"name": "grpc", "port": 7777}),
        "Service clew-gateway: has two ports with the name grpc",
    ),
    # And others.
    (
        lambda o: o.append(copy.deepcopy(find(o, "Service", "clew-redis"))),
        "Service clew-redis: is there twice",
    ),
    (
        lambda o: find(o, "Service", "clew-gateway")["metadata"].update(name="clew_gateway"),
        "Service clew_gateway: is no name",
    ),
    (
        lambda o: find(o, "Service", "clew-gateway")["metadata"]["labels"].update({"app": "a b"}),
        "label app has the value `a b`",
    ),
    (
        lambda o: find(o, "Service", "clew-redis")["spec"]["selector"].update({"app": "redis"}),
        "Service clew-redis: selector matches no pod",
    ),
    (
        lambda o: find(o, "Deployment", "clew-generator")["spec"]["template"]["metadata"].update(
            labels=find(o, "Deployment", "clew-gateway")["spec"]["template"]["metadata"]["labels"]
        ),
        "Deployment clew-generator: its pods are selected by Deployment clew-gateway, too",
    ),
    (
        lambda o: pod(o)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"].update(a="b"),
        "StatefulSet clew-retriever: spreads other pods than its own",
    ),
    (
        lambda o: container(o)["readinessProbe"]["httpGet"].update(port="health"),
        "readinessProbe asks port health",
    ),
    (
        lambda o: find(o, "Service", "clew-gateway")["spec"]["ports"][0].update(targetPort="web"),
        "Service clew-gateway: port web is none of Deployment clew-gateway",
    ),
    (
        lambda o: find(o, "ServiceMonitor", "clew")["spec"]["endpoints"][0].update(port="metrics"),
        "ServiceMonitor clew: port metrics is scraped of []",
    ),
    (
        lambda o: container(o)["volumeMounts"][-1].update(mountPath="/etc/clew/config/tmp"),
        "in another volume, at /etc/clew/config/tmp",
    ),
    (lambda o: container(o)["volumeMounts"].pop(), "volume temporary is mounted nowhere"),
    (lambda o: container(o)["resources"]["limits"].pop("memory"), "no limit of memory"),
    (lambda o: remove(o, "ServiceAccount", "clew-retriever"), "names ServiceAccount clew-retriever"),
    (
        lambda o: pod(o)["volumes"][1]["secret"].update(secretName="other"),
        "names Secret other, which nobody makes",
    ),
    (
        lambda o: pod(o, "Deployment", "clew-memory-encoder")["volumes"][-1]["persistentVolumeClaim"].update(
            claimName="other"
        ),
        "names PersistentVolumeClaim other, which nobody makes",
    ),
    (
        lambda o: container(o)["args"].__setitem__(1, "/etc/clew/config/other.toml"),
        "ConfigMap clew has no other.toml",
    ),
    (
        lambda o: find(o, "HorizontalPodAutoscaler", "clew-gateway")["spec"]["scaleTargetRef"].update(name="x"),
        "names Deployment x, which nobody makes",
    ),
    (
        lambda o: find(o, "Deployment", "clew-gateway")["spec"].update(replicas=2),
        "Deployment clew-gateway: says how many replicas there are, as does HorizontalPodAutoscaler",
    ),
    (
        lambda o: find(o, "Service", "clew-retriever")["spec"].pop("clusterIP"),
        "serviceName clew-retriever is no headless Service",
    ),
    (lambda o: container(o)["env"].append({"name": "CLEW_LOG", "value": "x"}), "variable CLEW_LOG is set twice"),
    (lambda o: container(o)["env"].insert(0, {"name": "X", "value": "$(POD_IP)"}), "uses POD_IP, which is not set"),
    (
        lambda o: container(o, "Deployment", "clew-redis")["args"].append("$(OTHER)"),
        "uses OTHER, which is not set",
    ),
    (lambda o: pod(o)["securityContext"].update(runAsUser=0), "may run as root"),
    (lambda o: pod(o)["securityContext"].pop("seccompProfile"), "has no seccomp profile"),
    (lambda o: pod(o).pop("automountServiceAccountToken"), "gets a token for the API server"),
    (lambda o: pod(o).pop("enableServiceLinks"), "gets variables for Services"),
    (lambda o: pod(o).update(hostNetwork=True), "has hostNetwork"),
    (
        lambda o: pod(o)["volumes"].__setitem__(-1, {"name": "temporary", "hostPath": {"path": "/tmp"}}),
        "mounts a folder of its machine",
    ),
    (lambda o: container(o)["securityContext"].update(readOnlyRootFilesystem=False), "may write to its root"),
    (lambda o: container(o)["securityContext"].update(privileged=True), "may become more than it is"),
    (lambda o: container(o)["securityContext"].pop("capabilities"), "keeps capabilities"),
    (lambda o: container(o).update(image="registry:5000/clew/retriever"), "has no version"),
    (lambda o: pod(o).update(terminationGracePeriodSeconds=30), "is killed after 30 s"),
    (lambda o: remove(o, "PodDisruptionBudget", "clew-retriever"), "expected one disruption budget"),
    (
        lambda o: find(o, "StatefulSet", "clew-retriever")["spec"].update(updateStrategy={"type": "OnDelete"}),
        "does not change its pods one after the other",
    ),
    (lambda o: job(o)["spec"].update(completions=3), "completes 3 of 1 parts"),
    (
        lambda o: job(o)["spec"]["template"]["spec"]["containers"][0]["args"].append("--parts=4"),
        "has 4 parts, and its pods have no indices",
    ),
    (lambda o: job(o)["spec"].update(backoffLimitPerIndex=1), "backoffLimitPerIndex needs restartPolicy Never"),
]

NETWORK_FAULTS = [
    (lambda o: remove(o, "NetworkPolicy", "clew"), "cannot look up names"),
    (lambda o: remove(o, "NetworkPolicy", "clew-redis"), "redis:6379 does not get through"),
    (
        lambda o: policy(o, "clew-memory-encoder")["ingress"][0]["from"].pop(),
        "generator to memory-encoder:7421 does not get through",
    ),
    (lambda o: policy(o, "clew-gateway")["egress"].pop(0), "gateway to retriever:7421 does not get through"),
    (lambda o: policy(o, "clew-retriever")["ingress"].append({}), "the internet to retriever:7421 is let through"),
    (
        lambda o: policy(o, "clew-redis")["ingress"][0].pop("from"),
        "a pod beside to redis:6379 is let through",
    ),
    (
        lambda o: policy(o, "clew-gateway")["ingress"][1].pop("from"),
        "the internet to gateway:9090 is let through",
    ),
    (lambda o: policy(o, "clew-retriever")["egress"].pop(), "retriever to storage does not get through"),
    (lambda o: policy(o, "clew-generator")["egress"].append({}), "generator to storage is let through"),
]

TRAPS = [
    ("a: {answer: y}", "line 1: `y` without quotes"),
    ("- No", "line 1: `No` without quotes"),
    ("a: 1\nb: 2\na: 3", "line 1: the key `a` is there twice"),
]


# What is done to the schema's and to the values' `config`, and a part of what has to be said of it.
DRIFTS = [
    (lambda s, v: s["peers"]["properties"].pop("attempts"), "config.peers.attempts: only the programs know it"),
    (lambda s, v: s["cluster"]["properties"].pop("members"), "config.cluster.members: only the programs know it"),
    (
        lambda s, v: s["gateway"]["properties"].update(pace={"type": "string"}),
        "config.gateway.pace: only the chart's schema know it",
    ),
    (
        lambda s, v: s["retriever"]["properties"]["searches"].update(maximum=20000),
        "config.retriever.searches: the schema takes 20000, the programs do not",
    ),
    (
        lambda s, v: s["retriever"]["properties"]["derive_batches"].update(maximum=8),
        "config.retriever.derive_batches: the schema refuses 9, the programs say: nothing",
    ),
    (
        lambda s, v: s["encoder"]["properties"]["precision"]["enum"].append("int8"),
        "config.encoder.precision: the schema takes int8, the programs do not",
    ),
    (lambda s, v: v["gateway"].update(questions=1), "config.gateway.questions: is 1 in values.yaml, and 256"),
    (lambda s, v: v["peers"].pop("wait_ms"), "config.peers.wait_ms: is missing in values.yaml"),
]


def missed_drifts(clew):
    """Every difference between chart and programs that was not told."""
    schema, ours = values.schema(), values.defaults()
    for drift, _expected in DRIFTS:
        drift(schema["properties"]["config"]["properties"], ours["config"])
    said = list(values.breaches(clew, schema, ours))
    for _drift, expected in DRIFTS:
        yield from unless_said(expected, said)


def missed(objects, provided, outward):
    """Every fault that no rule found."""
    for fault, expected in FAULTS:
        faulty = copy.deepcopy(objects)
        fault(faulty)
        yield from unless_said(expected, rules.breaches(faulty, provided))
    for fault, expected in NETWORK_FAULTS:
        faulty = copy.deepcopy(objects)
        fault(faulty)
        yield from unless_said(expected, network.breaches(faulty, outward))
    for text, expected in TRAPS:
        yield from unless_said(expected, rules.traps(text))


def unless_said(expected, said):
    said = list(said)
    if not any(expected in problem for problem in said):
        yield f"a fault was not found; expected `{expected}`, got {said}"
