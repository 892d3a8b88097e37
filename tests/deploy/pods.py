"""Runs pods as a kubelet would, as far as a container without Kubernetes can be one."""

import json
import re
import socket
import subprocess
import time
import urllib.request

import rules
from engine import Failure, run

SUBNET = "10.213.7"
# Seconds that a pod may take to get ready, and beside its own time to end.
START_PATIENCE = 120
END_PATIENCE = 120


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
        return [*confined, user, f"--memory={memory}"]

    def start(self, *how):
        """Starts the container and returns what podman prints."""
        names = [f"--add-host={name}:{address}" for name, address in self.cluster.names().items()]
        variables = [f"--env={name}={value}" for name, value in self.environment().items()]
        network = [f"--network=ns:/run/netns/{self.namespace}", *names]
        confined = [*self.confinement(), f"--name={self.name}"]
        patience = self.grace + END_PATIENCE
        arguments = [*how, *confined, *network, *variables, *self.mounts(), *self.command()]
        return self.cluster.engine.run(*arguments, patience=patience)

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
                    log = self.cluster.engine.log(self.name)
                    raise Failure(f"{self.name}: {probe} did not succeed; its log:\n{log}")
                time.sleep(0.2)

    def stop(self):
        """Has the pod end as Kubernetes does; it has to by itself, and within its time."""
        since = time.monotonic()
        self.cluster.engine.podman("stop", f"--time={self.grace}", self.name, patience=self.grace + END_PATIENCE)
        took = time.monotonic() - since
        code = self.cluster.engine.podman("inspect", "--format={{.State.ExitCode}}", self.name).strip()
        if code != "0":
            log = self.cluster.engine.log(self.name)
            raise Failure(f"{self.name}: ended with {code} after {took:.0f} of {self.grace} s; its log:\n{log}")
        return took
