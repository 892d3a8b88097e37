"""Files of `.cache` that must have a known SHA-256, wherever they come from."""

import hashlib
import sys


def is_right(content, sha256):
    """Whether the content is the expected one."""
    return hashlib.sha256(content).hexdigest() == sha256


def is_there(path, sha256):
    """Whether the file is there with the expected content."""
    return path.is_file() and is_right(path.read_bytes(), sha256)


def put(path, content, sha256, otherwise, mode=0o644):
    """Makes the file, whole or not at all. Other content ends the set-up with what to do `otherwise`."""
    if not is_right(content, sha256):
        sys.exit(f"setup: {otherwise}")
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(mode)
    new.rename(path)
