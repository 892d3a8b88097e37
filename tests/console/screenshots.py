"""Takes the pictures of the console's pages that the documentation shows.

    make screenshots

It starts a cluster, lets it read Clew's own documentation and a conversation that is made up, and takes a picture of
each page in Chromium. It needs what `make build` and `.setup/install tests` install.
"""

from __future__ import annotations

import base64
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlencode

WORKSPACE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(WORKSPACE / folder) for folder in ("examples/demo", "tests/python")]

from cluster import Cluster  # noqa: E402
from page import HEIGHT, report, set_scheme, set_width  # noqa: E402
from pages import call  # noqa: E402
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

PICTURES = WORKSPACE / "docs/pictures/console"
SERVICES = ["encoder", "generator", "graph-builder", "retriever", "retriever", "gateway"]
CORPUS, USER, RUN = "clew", "ada", "documentation"
SOURCES = ["README.md", "ARCHITECTURE.md", "docs/*.md", "docs/operate/*.md"]
# In CSS pixels, and per cent.
WIDTH, NARROW, QUALITY = 1100, 360, 80
# What is pressed on a page before its picture is taken.
BUTTONS = {"forget": "Forget…"}
# Pages that are shown as a phone shows them in the dark, too.
DARK_AND_NARROW = ("document", "search")
# Seconds until trees and graphs are there, and for all pictures.
PATIENCE_FOR_GRAPH, PATIENCE_FOR_ALL = 900, 300
QUESTION = "How do I restore a corpus from a snapshot?"
SESSIONS = {
    "monday": [
        ("I moved to Porto last month and work as a carpenter.", "2026-03-02T09:00:00Z"),
        ("My daughter starts school in September.", "2026-03-02T09:01:00Z"),
    ],
    "thursday": [
        ("I no longer live in Porto. I live in Lisbon now.", "2026-06-11T18:30:00Z"),
        ("Could you remind me to order oak for the table?", "2026-06-11T18:32:00Z"),
    ],
}


def count(origin: str) -> dict:
    return call(origin, "clew.corpus.v1.CorpusService/GetCorpus", {"name": CORPUS})["corpus"]["counts"]


def fill(endpoint: str, origin: str) -> None:
    """Gives the cluster what the pages show."""

    def clew(*arguments: str) -> None:
        subprocess.run([os.environ["CLEW"], *arguments, "--endpoint", endpoint], cwd=WORKSPACE, check=True)

    clew("corpus", "create", CORPUS, "--shards", "4")
    clew("ingest", "--corpus", CORPUS, "--run", RUN, *SOURCES)
    for session, turns in SESSIONS.items():
        said = [
            {"number": number, "role": "ROLE_USER", "text": text, "time": when}
            for number, (text, when) in enumerate(turns)
        ]
        message = {"corpus": CORPUS, "user": USER, "session": session, "turns": said}
        call(origin, "clew.chat.v1.ChatService/AppendTurns", message)
    until = time.monotonic() + PATIENCE_FOR_GRAPH
    while "unstructuredDocuments" in (counts := count(origin)):
        if time.monotonic() > until:
            sys.exit(f"trees and graphs are not there after {PATIENCE_FOR_GRAPH} seconds: {counts}")
        time.sleep(1)


def pages() -> dict[str, str]:
    """The address of each page by the name of its picture."""
    of = f"/corpora/{CORPUS}"
    return {
        "overview": "/",
        "corpus": of,
        "documents": f"{of}/documents",
        "document": f"{of}/document?{urlencode({'id': 'docs/promises.md', 'start': 400, 'end': 620})}",
        "forget": f"{of}/document?{urlencode({'id': 'docs/console.md'})}",
        "search": f"{of}/search?{urlencode({'q': QUESTION, 'beside': 'sparse'})}",
        "ask": f"{of}/ask?{urlencode({'q': QUESTION})}",
        "graph": f"{of}/graph?{urlencode({'q': 'Redis'})}",
        "tree": f"{of}/tree",
        "users": f"{of}/users",
        "user": f"{of}/user?{urlencode({'user': USER, 'q': 'Where do I live?'})}",
        "failures": f"{of}/failures",
        "runs": f"{of}/runs",
        "cluster": "/cluster",
        "connect": "/connect",
    }


def take(driver: webdriver.Chrome, address: str, button: str | None, width: int, scheme: str) -> bytes:
    """A picture of a page in a window, behind a button if one is given."""
    set_width(driver, width)
    set_scheme(driver, scheme)
    driver.get(address)
    if button:
        driver.find_element(By.XPATH, f"//main//button[normalize-space()='{button}']").click()
    if not driver.find_elements(By.TAG_NAME, "h1") or driver.find_elements(By.CSS_SELECTOR, "[role=alert]"):
        sys.exit(f"{address} shows a problem: {driver.find_element(By.TAG_NAME, 'body').text[:500]}")
    height = driver.execute_script("return document.documentElement.getBoundingClientRect().height")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, HEIGHT), "scale": 1}
    shot = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="clew-screenshots-") as folder:
        cluster = Cluster(pathlib.Path(folder), pathlib.Path(folder) / "data")
        cluster.environment["CLEW_HTTP__LISTEN"] = "127.0.0.1:0"
        try:
            *_, gateway = cluster.start(SERVICES)
            origin = gateway.wait_for(r"HTTP and JSON on (http://\S+)").group(1)
            fill(cluster.gateway, origin)
            PICTURES.mkdir(parents=True, exist_ok=True)

            def shoot(driver: webdriver.Chrome) -> list[str]:
                for name, path in pages().items():
                    picture = take(driver, origin + path, BUTTONS.get(name), WIDTH, "light")
                    (PICTURES / f"{name}.webp").write_bytes(picture)
                    print(name, flush=True)
                for name in DARK_AND_NARROW:
                    picture = take(driver, origin + pages()[name], None, NARROW, "dark")
                    (PICTURES / f"{name}-narrow.webp").write_bytes(picture)
                return []

            report(PATIENCE_FOR_ALL, shoot)
        finally:
            stuck = cluster.stop()
    if stuck:
        sys.exit(f"these did not end by themselves: {stuck}")


if __name__ == "__main__":
    main()
