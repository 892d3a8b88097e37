"""Builds images with buildah and runs containers with podman."""

import json
import subprocess

from manifests import WORKSPACE

# How the images of the test are called.
REPOSITORY, TAG = "localhost/clew", "deploy-test"
# Where the Containerfile looks for programs that are built already.
PREBUILT = WORKSPACE / ".cache/images/programs"
# Debian 12's runc with podman 4.3: more than these limits it does not get.
ULIMITS = ["--ulimit=nofile=20000:20000", "--ulimit=nproc=1000:1000"]
# Seconds that a command may take which builds something.
PATIENCE = 300


class Failure(Exception):
    """What did not go as it should."""


def run(*command, patience=PATIENCE):
    """What a command prints; ends the test if it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    if ran.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))} failed with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Engine:
    """buildah and podman, with a storage of their own that goes with its folder."""

    def __init__(self, folder):
        self.storage = [f"--root={folder}/storage", f"--runroot={folder}/running"]

    def podman(self, *arguments, patience=PATIENCE):
        return run("podman", *self.storage, "--runtime=runc", *arguments, patience=patience)

    def run(self, *arguments, patience=PATIENCE):
        """Runs a container of an image that is there, and returns what podman prints."""
        how = ["--no-healthcheck", "--pull=never", *ULIMITS]
        return self.podman("run", *how, *arguments, patience=patience)

    def log(self, container):
        """What a container wrote on both of its streams."""
        command = ["podman", *self.storage, "logs", container]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        return ran.stdout.decode(errors="replace")

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
