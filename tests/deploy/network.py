"""Who may connect to whom, by the NetworkPolicies, against who has to.

Policies are evaluated as Kubernetes says: a pod that a policy selects for a direction is let nothing through there
but what one of these policies names, and a connection needs both ends' leave.
"""

import ipaddress
import re

from manifests import NAMESPACE, WORKSPACE, configuration
from rules import of_kind, pods, selects

ROLES = ("gateway", "retriever", "memory-encoder", "generator", "graph-builder")
# What in a program opens connections, and to whom.
CONNECTORS = {
    r"Remote(Encoders|MemoryEncoder|Reader|Reranker)::(of|shared)": {"memory-encoder"},
    r"Remote(Reasoners|Generator)::of": {"generator"},
    r"RemoteGraphBuilders::(of|shared)": {"graph-builder"},
    r"RemoteCorpora::of": {"retriever"},
    r"memory\.connect\(": {"memory-encoder"},
    r"\.pool\(None": set(ROLES),
}
# Who offers the services that nodes call.
OFFERED = {
    "clew.cluster.v1.NodeService": set(ROLES),
    "clew.encoder.v1.EncoderService": {"memory-encoder"},
    "clew.generator.v1.GeneratorService": {"generator"},
    "clew.graph_builder.v1.GraphBuilderService": {"graph-builder"},
    "clew.shard.v1.CatalogueService": {"retriever"},
    "clew.shard.v1.ShardService": {"retriever"},
}


def calls(reader):
    """Who calls whom, as it stands in the programs: role -> roles. `reader` is `graph_builder.reader`."""
    found = {}
    for role in ROLES:
        folder = WORKSPACE / "services" / role / "src"
        code = "".join((folder / name).read_text() for name in ("main.rs", "role.rs") if (folder / name).exists())
        found[role] = set().union(*(called for form, called in CONNECTORS.items() if re.search(form, code)))
        assert found[role], f"who calls whom is not to be seen in {folder} any more"
    if reader == "rules":
        found["graph-builder"] -= {"generator"}
    return found


def permitted():
    """Who may call whom by what certificates say: role -> roles, of the table `CALLERS` of `crates/auth`."""
    code = (WORKSPACE / "crates/auth/src/methods.rs").read_text()
    table = re.search(r"const CALLERS: .*?&\[\n(.*?)\n    \]", code, re.DOTALL).group(1)
    rows = re.findall(r'\("([\w.]+)", &\[([\w, ]+)\]\)', table)
    assert rows and len(rows) == len(table.splitlines()), "the table of callers is not to be read any more"
    names = {"Gateway": "gateway", "Retriever": "retriever", "Encoder": "memory-encoder"}
    names |= {"Generator": "generator", "GraphBuilder": "graph-builder"}
    found = {role: set() for role in ROLES}
    for service, callers in rows:
        for caller in callers.split(", "):
            found[names[caller]] |= OFFERED[service]
    return found


def callers_differ():
    """Every call between roles that certificates do not let through, or that they do and nobody makes."""
    called, let_through = calls("model"), permitted()
    for role in ROLES:
        for other in sorted(called[role] - let_through[role]):
            yield f"{role} calls {other}, which the certificate of a {role} is refused by (`CALLERS` in crates/auth)"
        for other in sorted(let_through[role] - called[role]):
            yield f"{role} may call {other} by its certificate (`CALLERS` in crates/auth), and does not"


def peer_matches(peer, party):
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        address = ipaddress.ip_address(party["ip"]) if "ip" in party else None
        inside = address is not None and address in ipaddress.ip_network(block["cidr"])
        return inside and not any(address in ipaddress.ip_network(cut) for cut in block.get("except", []))
    if "ip" in party:
        return False
    if "namespaceSelector" in peer:
        wanted = peer["namespaceSelector"].get("matchLabels", {})
        if not wanted.items() <= party["namespace"].items():
            return False
    elif party["namespace"]["kubernetes.io/metadata.name"] != NAMESPACE:
        return False
    return peer.get("podSelector", {}).get("matchLabels", {}).items() <= party["labels"].items()


def lets_through(policies, direction, here, there, port, protocol):
    """Whether the policies for `here` let a connection from (`Ingress`) or to (`Egress`) `there` through."""
    if "ip" in here or here["namespace"]["kubernetes.io/metadata.name"] != NAMESPACE:
        return True
    mine = [
        policy["spec"]
        for policy in policies
        if selects(policy["spec"]["podSelector"].get("matchLabels", {}), here["labels"])
        and direction in policy["spec"]["policyTypes"]
    ]
    rules = [rule for spec in mine for rule in spec.get(direction.lower(), [])]
    peers = "from" if direction == "Ingress" else "to"

    def matches(rule):
        port_matches = "ports" not in rule or any(
            p["port"] == port and p.get("protocol", "TCP") == protocol for p in rule["ports"]
        )
        return port_matches and (peers not in rule or any(peer_matches(peer, there) for peer in rule[peers]))

    return not mine or any(matches(rule) for rule in rules)


def allowed(policies, source, target, port, protocol="TCP"):
    return lets_through(policies, "Egress", source, target, port, protocol) and lets_through(
        policies, "Ingress", target, source, port, protocol
    )


def party(labels, namespace=NAMESPACE, **namespace_labels):
    return {"labels": labels, "namespace": {"kubernetes.io/metadata.name": namespace, **namespace_labels}}


def breaches(objects, outward, clients_are_named=False):
    """Every connection that is needed and not let through, or let through and not needed.

    `outward` are places outside of the cluster with those who need them: name -> (address, port, roles).
    """
    policies = of_kind(objects, "NetworkPolicy")
    config = configuration(objects)
    grpc, admin = (int(config_of["listen"].rpartition(":")[2]) for config_of in (config, config["admin"]))
    ours = {labels["app.kubernetes.io/component"]: party(labels) for _name, labels, _spec in pods(objects)}
    others = {
        "a pod beside": party({"app": "other"}),
        "a client": party({"app": "client"}, "applications", **{"clew-client": "true"}),
        "monitoring": party({"app": "prometheus"}, "monitoring"),
        "the internet": {"ip": "203.0.113.9"},
    }

    called = calls(config["graph_builder"]["reader"])
    needed = {(caller, role, grpc) for caller, roles in called.items() for role in roles}
    needed |= {("monitoring", role, admin) for role in ROLES}
    http = config["http"].get("listen")
    of_clients = [grpc, int(http.rpartition(":")[2])] if http else [grpc]
    clients = ["a client"] if clients_are_named else others
    needed |= {(client, "gateway", port) for client in clients for port in of_clients}
    if "redis" in ours:
        needed |= {(role, "redis", 6379) for role in ROLES}
    if "ingest" in ours:
        needed |= {("ingest", "gateway", grpc)}
    for source_name, source in {**ours, **others}.items():
        for target_name, target in ours.items():
            for port in (*of_clients, admin, 6379):
                is_allowed = allowed(policies, source, target, port)
                if is_allowed != ((source_name, target_name, port) in needed):
                    problem = "is let through" if is_allowed else "does not get through"
                    yield f"NetworkPolicy: {source_name} to {target_name}:{port} {problem}"

    dns = party({"k8s-app": "kube-dns"}, "kube-system")
    for role, source in ours.items():
        for protocol in ("UDP", "TCP"):
            if not allowed(policies, source, dns, 53, protocol):
                yield f"NetworkPolicy: {role} cannot look up names over {protocol}"
        for place, (address, port, roles) in outward.items():
            is_allowed = allowed(policies, source, {"ip": address}, port)
            if is_allowed != (role in roles):
                problem = "is let through" if is_allowed else "does not get through"
                yield f"NetworkPolicy: {role} to {place} {problem}"
