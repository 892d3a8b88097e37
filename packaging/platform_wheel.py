"""Makes a Python wheel of a filled prefix, by which `pip install` puts the program on the path.

Not with maturin, which compiles by itself, and as a single package, so with other features than the rest of the
workspace. Here auditwheel tells for a built program which systems it runs on.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from wheel.wheelfile import WheelFile

from prefix import DOCUMENTS, NOTICES

# The client in Python is clew-memory. Both can be installed together: this one has no modules.
NAME = "clew-server"
# Lines of METADATA behind name and version.
METADATA = """\
Summary: Clew, a long-term memory for language-model applications: the command line and the server
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY-NOTICES.txt
Requires-Python: >=3.10
Keywords: memory,retrieval,rag,llm
Description-Content-Type: text/markdown

The program `clew`. Its first command that needs the embedding model fetches it, 90 MB, into your cache folder.
"""


def write_wheel(folder, prefix, version, bill_of_materials, moment, compression=zipfile.ZIP_DEFLATED):
    """Writes the wheel into the folder, and returns it. Everything in it is of one moment."""
    os.environ["SOURCE_DATE_EPOCH"] = str(moment)
    stem = f"{NAME.replace('-', '_')}-{version}"
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary) / "wheel"
        data, info = top / f"{stem}.data", top / f"{stem}.dist-info"
        data.mkdir(parents=True)
        (prefix / "bin").rename(data / "scripts")
        prefix.rename(data / "data")
        (info / "licenses").mkdir(parents=True)
        for name in ("LICENSE", NOTICES):
            (info / "licenses" / name).write_bytes((data / "data" / DOCUMENTS / name).read_bytes())
        (info / "sboms").mkdir()
        (info / "sboms/clew.cdx.json").write_text(bill_of_materials)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\n{METADATA}")

        def pack(folder, tag, compression):
            (info / "WHEEL").write_text(
                f"Wheel-Version: 1.0\nGenerator: clew {version}\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
            )
            for file in filter(Path.is_file, top.rglob("*")):
                file.chmod(0o755 if file.parent.name == "scripts" else 0o644)
            wheel = folder / f"{stem}-py3-none-{tag}.whl"
            with WheelFile(wheel, "w", compression) as archive:
                archive.write_files(top)
            return wheel

        if sys.platform == "darwin":
            tag = macos_tag(data / "scripts/clew")
        else:
            tag = linux_tag(pack(Path(temporary), f"linux_{platform.machine()}", zipfile.ZIP_STORED))
        return pack(folder, tag, compression)


def linux_tag(wheel):
    """The oldest Linux that has every library and symbol which the program needs, as manylinux knows it."""
    show = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
    ran = subprocess.run(show, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)["overall_tag"]


def macos_tag(program):
    """The oldest macOS that the program was linked for."""
    ran = subprocess.run(["otool", "-l", program], stdout=subprocess.PIPE, text=True, check=True)
    major, minor = map(int, re.search(r"minos (\d+)\.(\d+)", ran.stdout).groups())
    # From 11 on, tags have no minor version.
    return f"macosx_{major}_{0 if major >= 11 else minor}_{platform.machine()}"
