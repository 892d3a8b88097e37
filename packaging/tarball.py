"""Makes a tarball of a filled prefix, the same bytes each time."""

import gzip
import tarfile


def write_tarball(file, prefix, moment, level):
    """Writes the tarball. Its only folder has the file's name, and everything in it is of one moment."""
    top = file.name.removesuffix(".tar.gz")

    def plain(entry):
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = moment, 0, 0, "", ""
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with file.open("wb") as out, gzip.GzipFile("", "wb", level, out, moment) as packed:
        # `add` sorts what a folder holds.
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(prefix, top, filter=plain)
