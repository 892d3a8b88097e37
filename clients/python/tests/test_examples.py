"""Examples run as they are, and are what the documentation shows. Those that need more than their
engine are run with the tests of that engine.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY, Server
from engines import EXAMPLES, example, page, texts, texts_of

import clew

# Seconds that a command of Airflow may take.
_PATIENCE = 180
PAGES = [page(number, "today", 1) for number in range(5)]


@pytest.fixture
def lines(server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with a document in each line. The server is that of the environment."""
    monkeypatch.setenv("CLEW_ENDPOINT", server.endpoint)
    file = tmp_path / "pages.jsonl"
    documents = [{"id": row["id"], "text": row["text"]} for row in PAGES]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in documents))
    return str(file)


def test_the_documentation_shows_the_examples() -> None:
    shown = (REPOSITORY / "docs" / "engines.md").read_text("utf-8")
    examples = sorted(EXAMPLES.glob("*.py"))
    assert examples
    for file in examples:
        _, _, code = file.read_text("utf-8").partition('"""\n\n')
        code, _, _ = code.partition("\n\nif __name__")
        assert f"```python\n{code.strip()}\n```" in shown, file.name


def test_airflow_runs_the_example(
    client: clew.Client, name: str, lines: str, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("airflow")
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(EXAMPLES / "airflow_pages.py", dags)
    environment = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    conf = json.dumps({"corpus": name, "pages": lines})
    for command in (["db", "migrate"], ["dags", "test", "clew_pages", "--conf", conf]):
        airflow = [sys.executable, "-m", "airflow", *command]
        subprocess.run(airflow, check=True, env=environment, timeout=_PATIENCE)
    assert texts(client.corpus(name)) == texts_of(PAGES)


def test_dagster_runs_the_example(client: clew.Client, name: str, lines: str) -> None:
    dagster = pytest.importorskip("dagster")
    defined = example("dagster_pages.py")
    config = {"ops": {"clew_pages": {"config": {"corpus": name, "pages": lines}}}}
    made = dagster.materialize([defined["clew_pages"]], run_config=config)
    [event] = made.asset_materializations_for_node("clew_pages")
    assert event.metadata["new"].value == len(PAGES)
    assert texts(client.corpus(name)) == texts_of(PAGES)


def test_flyte_runs_the_example(client: clew.Client, name: str, lines: str) -> None:
    flyte = pytest.importorskip("flyte")
    write = example("flyte_pages.py")["write"]
    run = flyte.with_runcontext(mode="local").run(write, corpus=name, pages=lines)
    run.wait()
    assert run.outputs()[0] == len(PAGES)
    assert texts(client.corpus(name)) == texts_of(PAGES)
