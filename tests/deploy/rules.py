"""What must hold of manifests and what the schemas of Kubernetes do not tell.

Each rule looks at all objects of one installation and names every breach, for a person. `faults.py` proves that each
one finds what it is for.
"""

import re

import yaml

from manifests import configuration

# What has a template of pods, and which of them select their pods by labels.
SELECTING = ("Deployment", "StatefulSet")
WITH_PODS = (*SELECTING, "Job")
UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def title(found):
    return f"{found['kind']} {found['metadata']['name']}"


def of_kind(objects, *kinds):
    return [found for found in objects if found["kind"] in kinds]


def pods(objects):
    """(title, labels, spec) of the pods that the objects make."""
    for found in of_kind(objects, *WITH_PODS):
        template = found["spec"]["template"]
        yield title(found), template["metadata"]["labels"], template["spec"]


def containers(objects):
    """(title, pod's spec, container) of all containers."""
    for name, _labels, spec in pods(objects):
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            yield f"{name}, container {container['name']}", spec, container


def selects(selector, labels):
    return bool(selector) and selector.items() <= labels.items()


def volume_source(volume):
    """The kind of a volume and what it says: the one key beside its name."""
    ((kind, source),) = ((key, value) for key, value in volume.items() if key != "name")
    return kind, source


def quantity(text):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return float(number) * UNITS.get(unit, 1)


def named_twice(objects):
    seen = set()
    for found in objects:
        key = (found["kind"], found["metadata"]["name"])
        if key in seen:
            yield f"{title(found)}: is there twice"
        seen.add(key)


def names_are_names(objects):
    for found in objects:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", found["metadata"]["name"]):
            yield f"{title(found)}: is no name of at most 63 letters, digits and dashes"
    labelled = [(title(found), found["metadata"].get("labels", {})) for found in objects]
    for name, labels in labelled + [(name, labels) for name, labels, _spec in pods(objects)]:
        for key, value in labels.items():
            if not re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", str(value)):
                yield f"{name}: label {key} has the value `{value}`, which is none"


def selectors_match(objects):
    for found in of_kind(objects, *SELECTING):
        labels = found["spec"]["template"]["metadata"]["labels"]
        if not selects(found["spec"]["selector"]["matchLabels"], labels):
            yield f"{title(found)}: selector does not match the labels of its pods"
        others = [other for other in of_kind(objects, *SELECTING) if other is not found]
        for other in others:
            if selects(other["spec"]["selector"]["matchLabels"], labels):
                yield f"{title(found)}: its pods are selected by {title(other)}, too"
    everyone = [labels for _name, labels, _spec in pods(objects)]
    for found in of_kind(objects, "Service", "PodDisruptionBudget", "NetworkPolicy"):
        spec = found["spec"]
        if found["kind"] == "Service":
            selector = spec.get("selector", {})
        else:
            selector = spec["selector" if found["kind"] == "PodDisruptionBudget" else "podSelector"]["matchLabels"]
        if not any(selects(selector, labels) for labels in everyone):
            yield f"{title(found)}: selector matches no pod"
    for found in of_kind(objects, *WITH_PODS):
        template = found["spec"]["template"]
        for spread in template["spec"].get("topologySpreadConstraints", []):
            if not selects(spread["labelSelector"]["matchLabels"], template["metadata"]["labels"]):
                yield f"{title(found)}: spreads other pods than its own"


def port_names_are_short(objects):
    """The API server refuses what is no IANA service name; schemas only say `string`."""
    named = [(name, port) for name, _spec, container in containers(objects) for port in container.get("ports", [])]
    named += [(title(found), port) for found in of_kind(objects, "Service") for port in found["spec"]["ports"]]
    for name, port in named:
        word = port.get("name", "x")
        if not re.fullmatch(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", word):
            yield f"{name}: port name `{word}` is not 1 to 15 of a-z, 0-9 and dashes"


def ports_are_in_range(objects):
    def numbers(place, where):
        if isinstance(where, dict):
            for key, value in where.items():
                if key in ("port", "targetPort", "containerPort", "nodePort", "endPort") and isinstance(value, int):
                    yield place, key, value
                yield from numbers(place, value)
        elif isinstance(where, list):
            for value in where:
                yield from numbers(place, value)

    for found in objects:
        for name, key, value in numbers(title(found), found):
            if not 1 <= value <= 65535:
                yield f"{name}: {key} is {value}, expected 1 to 65535"


def ports_are_named_once(objects):
    for found in of_kind(objects, "Service"):
        ports = found["spec"]["ports"]
        names = [("name", port.get("name")) for port in ports]
        numbers = [("port", port["port"], port.get("protocol", "TCP")) for port in ports]
        for twice in {value for values in (names, numbers) for value in values if values.count(value) > 1}:
            yield f"{title(found)}: has two ports with the {twice[0]} {twice[1]}"
    for name, _spec, container in containers(objects):
        values = [port["name"] for port in container.get("ports", [])]
        for value in {value for value in values if values.count(value) > 1}:
            yield f"{name}: has two ports with the name {value}"


def named_ports_are_there(objects):
    for name, _spec, container in containers(objects):
        there = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            ask = container.get(probe, {})
            port = (ask.get("httpGet") or ask.get("tcpSocket") or {}).get("port")
            if isinstance(port, str) and port not in there:
                yield f"{name}: {probe} asks port {port}, which it does not have"
    for found in of_kind(objects, "Service"):
        for port in found["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            for name, labels, spec in pods(objects):
                there = [p for container in spec["containers"] for p in container.get("ports", [])]
                if selects(found["spec"]["selector"], labels) and not any(
                    target in (p["name"], p["containerPort"]) for p in there
                ):
                    yield f"{title(found)}: port {target} is none of {name}"
    for found in of_kind(objects, "ServiceMonitor"):
        services = [
            service
            for service in of_kind(objects, "Service")
            if selects(found["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
        ]
        for endpoint in found["spec"]["endpoints"]:
            there = [s for s in services if endpoint["port"] in [port["name"] for port in s["spec"]["ports"]]]
            scraped = sorted(service["metadata"]["labels"]["app.kubernetes.io/component"] for service in there)
            if not scraped or len(set(scraped)) < len(scraped):
                yield f"{title(found)}: port {endpoint['port']} is scraped of {scraped}, expected each role once"


def mounts_have_volumes(objects):
    for name, spec, container in containers(objects):
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"{name}: mounts {mount['name']}, which is no volume"
            # Below a volume that is read-only no place for another can be made.
            inside = [path for path in paths if mount["mountPath"].startswith(path.rstrip("/") + "/")]
            if inside or paths.count(mount["mountPath"]) > 1:
                yield f"{name}: mounts {mount['name']} in another volume, at {mount['mountPath']}"
    for name, _labels, spec in pods(objects):
        mounted = {m["name"] for container in spec["containers"] for m in container.get("volumeMounts", [])}
        for volume in spec.get("volumes", []):
            if volume["name"] not in mounted:
                yield f"{name}: volume {volume['name']} is mounted nowhere"


def requests_are_within_limits(objects):
    for name, _spec, container in containers(objects):
        resources = container.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys() or "memory" not in resources.get("limits", {}):
            yield f"{name}: has no requests of cpu and memory, or no limit of memory"
        for what, limit in resources.get("limits", {}).items():
            if quantity(resources.get("requests", {}).get(what, 0)) > quantity(limit):
                yield f"{name}: requests more {what} than its limit of {limit}"
            if "/" in what and resources.get("requests", {}).get(what, limit) != limit:
                yield f"{name}: {what} cannot be shared; expected no request, or the limit"


def references_are_there(objects, provided):
    """Whatever is named is in the manifests, or one of those that the user provides: (kind, name)."""
    there = {(found["kind"], found["metadata"]["name"]) for found in objects} | provided
    keys = {found["metadata"]["name"]: set(found["data"]) for found in of_kind(objects, "ConfigMap")}

    def expect(name, kind, other):
        if (kind, other) not in there:
            yield f"{name}: names {kind} {other}, which nobody makes"

    for name, _labels, spec in pods(objects):
        account = spec.get("serviceAccountName")
        if account:
            yield from expect(name, "ServiceAccount", account)
        for volume in spec.get("volumes", []):
            kind, source = volume_source(volume)
            if kind == "configMap":
                yield from expect(name, "ConfigMap", source["name"])
            elif kind == "secret":
                yield from expect(name, "Secret", source["secretName"])
            elif kind == "persistentVolumeClaim":
                yield from expect(name, "PersistentVolumeClaim", source["claimName"])
    for name, spec, container in containers(objects):
        for variable in container.get("env", []):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference:
                yield from expect(name, "Secret", reference["name"])
        mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
        sources = {volume["name"]: volume_source(volume) for volume in spec.get("volumes", [])}
        for argument in container.get("args", []):
            folder, _, file = argument.rpartition("/")
            kind, source = sources.get(mounts.get(folder), (None, {}))
            if kind == "configMap" and file not in keys.get(source["name"], {file}):
                yield f"{name}: reads {argument}, but ConfigMap {source['name']} has no {file}"
    for found in of_kind(objects, "HorizontalPodAutoscaler"):
        target = found["spec"]["scaleTargetRef"]
        yield from expect(title(found), target["kind"], target["name"])
        for scaled in of_kind(objects, target["kind"]):
            if scaled["metadata"]["name"] == target["name"] and "replicas" in scaled["spec"]:
                yield f"{title(scaled)}: says how many replicas there are, as does {title(found)}"
    for found in of_kind(objects, "StatefulSet"):
        name = found["spec"]["serviceName"]
        service = [s for s in of_kind(objects, "Service") if s["metadata"]["name"] == name]
        if not service or service[0]["spec"].get("clusterIP") != "None":
            yield f"{title(found)}: serviceName {name} is no headless Service"


def variables_are_known(objects):
    for name, spec, container in containers(objects):
        known = set()
        for variable in container.get("env", []):
            if variable["name"] in known:
                yield f"{name}: variable {variable['name']} is set twice"
            for used in re.findall(r"\$\((\w+)\)", variable.get("value", "")):
                if used not in known:
                    yield f"{name}: variable {variable['name']} uses {used}, which is not set before it"
            known.add(variable["name"])
        for argument in container.get("args", []):
            for used in re.findall(r"\$\((\w+)\)", argument):
                if used not in known:
                    yield f"{name}: argument {argument} uses {used}, which is not set"


def pods_may_do_little(objects):
    """The Pod Security Standard `restricted`, and more."""
    for name, _labels, spec in pods(objects):
        security = spec.get("securityContext", {})
        if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
            yield f"{name}: may run as root"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name}: has no seccomp profile"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name}: gets a token for the API server"
        if spec.get("enableServiceLinks") is not False:
            # Kubernetes' CLEW_GATEWAY_PORT and the like would be taken for configuration keys.
            yield f"{name}: gets variables for Services"
        for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(forbidden):
                yield f"{name}: has {forbidden}"
        if any(volume_source(volume)[0] == "hostPath" for volume in spec.get("volumes", [])):
            yield f"{name}: mounts a folder of its machine"
    for name, _spec, container in containers(objects):
        security = container.get("securityContext", {})
        if security.get("readOnlyRootFilesystem") is not True:
            yield f"{name}: may write to its root file system"
        if security.get("allowPrivilegeEscalation") is not False or security.get("privileged"):
            yield f"{name}: may become more than it is"
        if security.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{name}: keeps capabilities"
        if not re.search(r":[\w.-]+$|@sha256:", container["image"]) or container["image"].endswith(":latest"):
            yield f"{name}: image {container['image']} has no version"


def terminations_wait_for_drains(objects):
    """A pod gets the time that its program takes to hand over (`shutdown_secs`), and to leave its Service first."""
    shutdown = configuration(objects)["shutdown_secs"]
    for name, spec, container in containers(objects):
        if "--config" not in container.get("args", []):
            continue
        before = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        grace = spec.get("terminationGracePeriodSeconds", 30)
        if grace < shutdown + before + 10:
            expected = f"{shutdown} s of shutdown_secs, {before} s before and 10 s after"
            yield f"{name}: is killed after {grace} s, expected {expected}"


def budgets_leave_one_way(objects):
    """A machine can be emptied, and no role of more than one pod goes down by it."""
    budgets = of_kind(objects, "PodDisruptionBudget")
    for found in of_kind(objects, *SELECTING):
        labels = found["spec"]["template"]["metadata"]["labels"]
        if labels["app.kubernetes.io/component"] == "redis":
            continue
        meant = [b for b in budgets if selects(b["spec"]["selector"]["matchLabels"], labels)]
        if len(meant) != 1 or meant[0]["spec"].get("maxUnavailable") != 1:
            yield f"{title(found)}: expected one disruption budget with maxUnavailable 1, got {len(meant)}"


def owners_change_one_by_one(objects):
    for found in of_kind(objects, "StatefulSet"):
        if found["spec"].get("updateStrategy", {}).get("type") != "RollingUpdate":
            yield f"{title(found)}: does not change its pods one after the other"


def parts_have_indices(objects):
    """A Job of several parts runs each of them once, and each of its pods knows which."""
    for found in of_kind(objects, "Job"):
        job = found["spec"]
        given = [a.removeprefix("--parts=") for c in job["template"]["spec"]["containers"] for a in c.get("args", [])
                 if a.startswith("--parts=")]
        parts = int(given[0]) if given else 1
        is_indexed = job.get("completionMode") == "Indexed"
        if parts > 1 and not is_indexed:
            yield f"{title(found)}: has {parts} parts, and its pods have no indices"
        if job.get("completions", 1) != parts:
            yield f"{title(found)}: completes {job.get('completions', 1)} of {parts} parts"
        if "backoffLimitPerIndex" in job and job["template"]["spec"]["restartPolicy"] != "Never":
            yield f"{title(found)}: backoffLimitPerIndex needs restartPolicy Never"


RULES = [
    named_twice,
    names_are_names,
    selectors_match,
    port_names_are_short,
    ports_are_in_range,
    ports_are_named_once,
    named_ports_are_there,
    mounts_have_volumes,
    requests_are_within_limits,
    variables_are_known,
    pods_may_do_little,
    terminations_wait_for_drains,
    budgets_leave_one_way,
    owners_change_one_by_one,
    parts_have_indices,
]


def breaches(objects, provided):
    """Every breach of a rule; `provided` are the objects that the user makes, as (kind, name)."""
    found = [problem for rule in RULES for problem in rule(objects)]
    return found + list(references_are_there(objects, provided))


def traps(text):
    """What YAML reads otherwise than it looks: words that are truth values to some readers, and keys twice."""
    for document in yaml.compose_all(text):
        yield from traps_in(document)


def traps_in(node):
    line = node.start_mark.line + 1 if node else 0
    if isinstance(node, yaml.ScalarNode):
        if node.style is None and re.fullmatch(r"y|n|yes|no|on|off", node.value, re.IGNORECASE):
            yield f"line {line}: `{node.value}` without quotes is a truth value to some readers"
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from traps_in(item)
    elif isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _value in node.value]
        for key in {key for key in keys if keys.count(key) > 1}:
            yield f"line {line}: the key `{key}` is there twice"
        for key, value in node.value:
            yield from traps_in(key)
            yield from traps_in(value)
