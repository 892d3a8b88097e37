"""An S3-compatible server with a bucket, for pods to keep everything in."""

import subprocess
import sys
import time
import urllib.request

from engine import Failure

NAME = "clew-deploy-test"
PORT = 5007
# Seconds until it answers.
PATIENCE = 60
# It takes any.
CREDENTIALS = {"access_key_id": "deploy-test", "secret_access_key": "deploy-test-secret"}


class Bucket:
    """`moto`, which keeps everything in memory and makes exactly one of several conditional puts succeed."""

    def __init__(self, host):
        self.host, self.endpoint = host, f"http://{host}:{PORT}"

    def __enter__(self):
        command = [sys.executable, "-m", "moto.server", "-H", self.host, "-p", str(PORT)]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while not self.is_made():
            if self.server.poll() is not None or time.monotonic() > until:
                self.server.kill()
                raise Failure("the S3 server does not answer; is moto of tests/python/requirements.txt installed?")
            time.sleep(0.1)
        return self

    def is_made(self):
        try:
            request = urllib.request.Request(f"{self.endpoint}/{NAME}", method="PUT")
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def __exit__(self, *_error):
        self.server.kill()
        self.server.wait()
