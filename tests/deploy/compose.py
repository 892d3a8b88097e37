"""Holds `compose.yaml` to what Clew's program says of its configuration, and its services to each other.

No container is started. The program is asked with the command and the environment of its service: it refuses what it
does not know, and prints what comes of the rest.
"""

import copy
import re
import subprocess
import tempfile
from urllib.parse import urlsplit

import yaml

from manifests import WORKSPACE, tomllib

FILE = WORKSPACE / "compose.yaml"
SERVICE = "clew"
# What a service may say. A wrong word would be passed over by some programs, and is refused here.
KEYS = set(
    "image profiles depends_on command environment ports volumes read_only cap_drop security_opt "
    "stop_grace_period restart".split()
)
PATIENCE = 30
URL = re.compile(r"http://[^\s\"']+")


def effective(clew, service):
    """The configuration with which the service would run, or what is wrong with it."""
    environment = {key: str(value) for key, value in service["environment"].items() if key.startswith("CLEW_")}
    command = [clew, *service["command"], "--print-config"]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    return (tomllib.loads(ran.stdout), None) if ran.returncode == 0 else (None, ran.stderr)


def breaches(clew, compose):
    """What is wrong with the file, whose content is `compose`."""
    services, volumes = compose["services"], compose["volumes"]
    for name, service in services.items():
        yield from (f"{name}: {problem}" for problem in service_breaches(service, services, volumes))
    version = tomllib.loads((WORKSPACE / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    own = services[SERVICE]
    if own["image"] != f"clew/clew:{version}":
        yield f"{SERVICE}: image is {own['image']}, expected the version of Cargo.toml, {version}"
    config, problem = effective(clew, own)
    if problem:
        yield f"{SERVICE}: the program refuses its settings: {' '.join(problem.split())}"
        return
    ports = {config["listen"].rpartition(":")[2], config["http"]["listen"].rpartition(":")[2]}
    published = {str(port).rpartition(":")[2] for port in own["ports"]}
    if published != ports:
        yield f"{SERVICE}: publishes {sorted(published)}, and listens on {sorted(ports)}"
    for name, service in services.items():
        for url in URL.findall(str(service["environment"])):
            yield from (f"{name}: {url}: {problem}" for problem in url_breaches(url, config["http"]))


def service_breaches(service, services, volumes):
    unknown = service.keys() - KEYS
    if unknown:
        yield f"expected none but the keys that are known here, got {sorted(unknown)}"
    if not re.fullmatch(r"\S+:v?\d+\.\d+\.\d+", service["image"]):
        yield f"image {service['image']} has no version"
    for key, value in service["environment"].items():
        if not isinstance(value, str):
            yield f"{key} is no text in the file, so that its form is up to the reader"
    for port in service["ports"]:
        if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port):
            yield f"port {port} is open to others than this machine"
    for volume in service["volumes"]:
        source = volume.partition(":")[0]
        if not source.startswith(".") and source not in volumes:
            yield f"volume {source} is not declared"
    for needed in service.get("depends_on", []):
        if needed not in services:
            yield f"depends on {needed}, which is no service"
        elif services[needed].get("profiles"):
            yield f"depends on {needed}, which may not be started"


def url_breaches(url, http):
    """What keeps a container from reaching Clew's HTTP at this address."""
    place = urlsplit(url)
    if place.hostname != SERVICE:
        yield f"expected the service {SERVICE}"
    elif place.hostname not in http["allowed_hosts"]:
        yield f"http.allowed_hosts refuses the name {place.hostname}"
    if not http["listen"].endswith(f":{place.port}"):
        yield f"http.listen is {http['listen']}"
    if place.path != "/v1":
        yield "expected the path /v1"


def read():
    return yaml.safe_load(FILE.read_text())


def environment(compose, name=SERVICE):
    return compose["services"][name]["environment"]


# What is done to the good file, and a part of what has to be said of it.
FAULTS = [
    (lambda c: environment(c).update(CLEW_HTTP__NO_SUCH="1"), "no_such"),
    (lambda c: environment(c).update(CLEW_HTTP__ALLOWED_HOSTS='["clewd"]'), "refuses the name clew"),
    (lambda c: environment(c).update(CLEW_HTTP__LISTEN="0.0.0.0:7423"), "http.listen is 0.0.0.0:7423"),
    (lambda c: environment(c).update(CLEW_AUTH__INSECURE=True), "CLEW_AUTH__INSECURE is no text"),
    (
        lambda c: environment(c, "open-webui").update(OPENAI_API_BASE_URL="http://clew:7422"),
        "expected the path /v1",
    ),
    (
        lambda c: environment(c, "open-webui").update(OPENAI_API_BASE_URL="http://127.0.0.1:7422/v1"),
        "expected the service clew",
    ),
    (lambda c: c["services"]["open-webui"].update(image="ghcr.io/open-webui/open-webui:main"), "no version"),
    (lambda c: c["services"]["open-webui"].update(enviroment={}), "['enviroment']"),
    (lambda c: c["services"]["open-webui"].update(depends_on=["clewd"]), "depends on clewd"),
    (lambda c: c["services"]["open-webui"].update(ports=["3000:8080"]), "3000:8080 is open"),
    (lambda c: c["services"]["clew"].update(image="clew/clew:0.0.0"), "expected the version of Cargo.toml"),
    (lambda c: c["volumes"].pop("open-webui"), "volume open-webui is not declared"),
]


def missed_faults(clew):
    """Faults of which nothing, or something else, is said."""
    for change, expected in FAULTS:
        compose = copy.deepcopy(read())
        change(compose)
        told = list(breaches(clew, compose))
        if not any(expected in problem for problem in told):
            yield f"expected `{expected}`, got {told}"
