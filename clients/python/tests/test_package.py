"""What the package consists of, and that its texts are true."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY, Server

import clew

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
ADDRESS = "http://127.0.0.1:7421"

in_repository = pytest.mark.skipif(
    not (REPOSITORY / "Cargo.toml").exists(), reason="this is not the repository of Clew"
)


def examples(text: str) -> list[str]:
    """Returns the Python in a page."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_run_in_their_order(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    found = examples(README.read_text("utf-8"))
    assert len(found) == 7
    assert ADDRESS in found[0]
    names: dict[str, object] = {"__name__": "readme"}
    for example in found:
        exec(compile(example.replace(ADDRESS, server.endpoint), README.name, "exec"), names)
    told = capsys.readouterr().out
    for expected in (
        "Bohumil",
        "report/2024 new",
        "10 0 0 0",
        "answered",
        "['report/2015', 'report/2016', 'report/2017'] True",
        "monday ['I moved to Athens.'",
        "NOT_FOUND corpus `handbook`",
    ):
        assert expected in told
    client = names["client"]
    assert isinstance(client, clew.Client)
    client.close()


def test_the_example_of_the_module_runs(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert clew.__doc__ is not None
    lines = [line[4:] for line in clew.__doc__.splitlines() if line.startswith("    ") or not line]
    example = "\n".join(lines)
    assert example.count(ADDRESS) == 1
    exec(compile(example.replace(ADDRESS, server.endpoint), "clew", "exec"), {})
    assert capsys.readouterr().out == "Xqvzkwjb\n"


def test_the_page_names_every_error() -> None:
    text = README.read_text("utf-8")
    errors = [name for name in clew.__all__ if name.endswith("Error") and name != "ClewError"]
    assert [name for name in errors if f"`{name}`" not in text] == []


@in_repository
def test_the_version_is_that_of_the_programs() -> None:
    manifest = (REPOSITORY / "Cargo.toml").read_text("utf-8")
    package = re.search(r'^\[workspace\.package\]$.*?^version = "(.+?)"$', manifest, re.M | re.S)
    assert package is not None
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'\nversion = "{package[1]}"\n' in project
    assert clew.__version__ == package[1]


@in_repository
def test_the_licence_is_that_of_the_programs() -> None:
    assert (ROOT / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()


@pytest.fixture(scope="session")
def uv() -> str:
    found = shutil.which("uv")
    if found is None:
        pytest.skip("`uv` is not installed, which installs the compiler of the proto files")
    return found


@in_repository
def test_generated_modules_are_current(uv: str) -> None:
    command = [uv, "run", "--no-project", "--script", str(ROOT / "generate.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No solution found" in checked.stderr or "No interpreter found" in checked.stderr:
        pytest.skip(f"the compiler cannot be installed here: {checked.stderr[-300:]}")
    assert checked.returncode == 0, checked.stderr


@in_repository
def test_modules_that_a_program_generated_live_beside_the_package(
    uv: str, tmp_path: pathlib.Path
) -> None:
    # Another release of a file of the same name, as an older program would have it.
    proto = tmp_path / "proto" / "clew" / "query" / "v1" / "query.proto"
    proto.parent.mkdir(parents=True)
    proto.write_text(
        'syntax = "proto3";\npackage clew.query.v1;\n'
        "message SearchRequest { string corpus = 1; string query = 2; }\n",
        "utf-8",
    )
    compile_proto = [
        *(uv, "run", "--no-project", "--python", "3.11", "--with", "grpcio-tools==1.63.0"),
        *("--with", "setuptools<81", "python", "-m", "grpc_tools.protoc"),
        *(f"-I{tmp_path / 'proto'}", f"--python_out={tmp_path}", str(proto)),
    ]
    made = subprocess.run(compile_proto, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"the compiler cannot be installed here: {made.stderr[-300:]}")
    program = (
        "import clew\n"
        "from clew.query.v1 import query_pb2\n"
        "assert query_pb2.SearchRequest(query='x').query == 'x'\n"
        "assert not hasattr(query_pb2.SearchRequest(), 'k')\n"
        "clew.Client('http://localhost:1')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_the_package_needs_no_compiler_and_no_other_packages_of_grpc() -> None:
    program = (
        # `grpc` itself loads its compiler where that is installed.
        "import sys, grpc\n"
        "before = set(sys.modules)\n"
        "import clew\n"
        "loaded = set(sys.modules) - before\n"
        "extra = {'grpc_tools', 'grpc_status', 'grpc_health', 'google.rpc'} & loaded\n"
        "assert not extra, extra\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
