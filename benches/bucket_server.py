"""An S3-compatible server (moto) for buckets of many objects, which it can take from a folder.

    .cache/python/bin/python benches/bucket_server.py --port 9000 --bucket bench --folder data --prefix data

moto looks at every object of a bucket for each listing. Here the names are sorted, so that a listing looks at what it
lists alone. All else is moto's. It prints a line when it serves.
"""

import argparse
import bisect
import copy
import gc
import pathlib
import threading

import moto.s3.models
from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

REGION = "us-east-1"
# After every name.
LAST = "\U0010ffff"


class SortedKeys(moto.s3.models._VersionedKeyStore):
    """The objects of a bucket by name, and their names in order."""

    def __init__(self):
        super().__init__()
        self.names, self.lock = [], threading.Lock()

    def setlist(self, key, list_):
        with self.lock:
            if key not in self:
                bisect.insort(self.names, key)
            super().setlist(key, list_)

    def pop(self, key):
        with self.lock:
            super().pop(key)
            del self.names[bisect.bisect_left(self.names, key)]

    def listed(self, prefix, delimiter):
        """The objects that a listing names, and one of each folder that it names."""
        found = {}
        with self.lock:
            at = bisect.bisect_left(self.names, prefix)
            while at < len(self.names) and (name := self.names[at]).startswith(prefix):
                found[name] = self[name]
                folder, is_folder, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
                after = prefix + folder + delimiter + LAST if is_folder else name + "\0"
                at = bisect.bisect_left(self.names, after, at)
        return found


LIST_ALL = moto.s3.models.S3Backend.list_objects


def list_objects(backend, bucket, prefix, delimiter, marker, max_keys):
    """Has moto list a bucket of those objects alone that the listing names."""
    part = copy.copy(bucket)
    part.keys = bucket.keys.listed(prefix or "", delimiter)
    return LIST_ALL(backend, part, prefix, delimiter, marker, max_keys)


def fill(bucket, folder, prefix):
    """Makes the files of a folder objects of a bucket."""
    backend = moto.s3.models.s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    backend.create_bucket(bucket, REGION)
    if folder:
        for file in sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file()):
            name = f"{prefix}/{file.relative_to(folder).as_posix()}"
            backend.put_object(bucket, name, file.read_bytes(), disable_notification=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--folder", help="folder whose files become objects")
    parser.add_argument("--prefix", default="data", help="what precedes their names")
    asked = parser.parse_args()
    moto.s3.models._VersionedKeyStore = SortedKeys
    moto.s3.models.S3Backend.list_objects = list_objects
    # Looking for garbage among millions of objects would take most of the time.
    gc.disable()
    fill(asked.bucket, asked.folder, asked.prefix)
    gc.freeze()
    gc.enable()
    print("serves", flush=True)
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", asked.port, application, threaded=True)


if __name__ == "__main__":
    main()
