"""Uses the console in a headless Chromium as a person does, and says what a person would complain of.

It logs in, adds a document, searches, asks, opens a citation and compares what is marked with the stored bytes,
corrects and forgets a turn. Then it looks at every page, narrow and wide, light and dark: none may scroll sideways,
write to the console, load from elsewhere, run what a stored text says, or break a rule of axe. Of a cluster it drains
a retriever. `tests/interfaces/console.rs` runs it with `use`, `look` and `look-on` in this order, and of a cluster
with `drain`. By hand, with a key in `KEY` if the server asks for one:

    .cache/python/bin/python tests/console/pages.py http://127.0.0.1:7422 use
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sys
import time
import urllib.request
from collections.abc import Callable
from urllib.parse import parse_qs, urlencode, urlsplit

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

WORKSPACE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(WORKSPACE / "tests/python"))

from page import HEIGHT, SCHEMES, report, set_scheme, set_width  # noqa: E402

# In CSS pixels: the narrowest phone, and a desk.
WIDTHS = (360, 1440)
# Seconds for one thing to happen, and for everything, which is less than the test waits that runs this.
PATIENCE = 30
PATIENCE_FOR_ALL = 110
AXE = WORKSPACE / ".cache/axe.min.js"
# What axe checks. Another scheme changes colours alone, and all rules take a while.
RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
CORPUS = "notes"
TEXT = "Backups of the database are kept for 35 days.\nThey are stored in Frankfurt – a café away."
# A member of a cluster to drain, and one that stays.
MEMBER, OTHER = "retriever-1", "retriever-0"
QUESTION = "How long are backups of the database kept?"

LOOK = """
const faults = [];
if (innerWidth !== arguments[0]) faults.push(`the window is ${innerWidth} pixels wide`);
const root = document.documentElement;
if (root.scrollWidth > innerWidth) faults.push(`it is ${root.scrollWidth} pixels wide and must be scrolled`);
if (document.title === "taken") faults.push("a stored text ran");
for (const entry of performance.getEntriesByType("resource"))
  if (new URL(entry.name).origin !== location.origin) faults.push(`it loads ${entry.name}`);
if (document.querySelectorAll("h1").length !== 1) faults.push("it has not one heading");
return faults;
"""
CHECK = """
const [rules, done] = arguments;
axe.run({runOnly: rules}).then(
  ({violations}) => done(violations.flatMap(({id, help, nodes}) =>
    nodes.slice(0, 3).map(({html}) => `${id}: ${help}: ${html.slice(0, 160)}`))),
  error => done([String(error)]));
"""


class Person:
    """Somebody with a browser."""

    def __init__(self, driver: webdriver.Chrome, origin: str) -> None:
        self.driver, self.origin = driver, origin

    def go(self, path: str, **query: str) -> None:
        self.driver.get(f"{self.origin}{path}{'?' if query else ''}{urlencode(query)}")

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def fill(self, selector: str, text: str) -> None:
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def until(self, what: str, condition):
        """What the condition gives, once it gives something."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if found := condition():
                    return found
            except WebDriverException:  # of a page that is being replaced
                pass
            time.sleep(0.05)
        raise SystemExit(f"this did not happen: {what}; the page says: {self.find('body').text[:2000]}")

    def press(self, name: str) -> None:
        """Presses a button or follows a link by its text, and waits for the next page."""
        buttons = f"//main//button[normalize-space()='{name}'] | //main//a[normalize-space()='{name}']"
        old = self.find("html")
        self.driver.find_element(By.XPATH, buttons).click()
        self.until(f"`{name}` leads somewhere", lambda: self.find("html").id != old.id)

    def says(self, text: str) -> None:
        self.until(f"the page says `{text}`", lambda: text in self.find("main").text)


def call(origin: str, method: str, message: dict) -> dict:
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{origin}/api/{method}", json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def log_in(person: Person) -> None:
    person.go(f"/corpora/{CORPUS}/documents")
    if key := os.environ.get("KEY"):
        assert urlsplit(person.driver.current_url).path == "/login", person.driver.current_url
        # By keyboard alone: the field has the focus.
        old = person.find("html")
        person.driver.switch_to.active_element.send_keys(key, Keys.ENTER)
        person.until("the login leads back", lambda: person.find("html").id != old.id)
        assert person.driver.execute_script("return document.cookie") == "", "a script sees the login"
    assert urlsplit(person.driver.current_url).path == f"/corpora/{CORPUS}/documents"


def add(person: Person) -> None:
    person.fill("#id", "backups.md")
    person.fill("#title", "Backups")
    person.driver.execute_script("document.querySelector('#text').value = arguments[0]", TEXT)
    person.press("Add")

    def is_searchable() -> bool:
        person.driver.refresh()
        return "searchable" in person.find(".pairs").text

    person.until("the document is searchable", is_searchable)


def search(person: Person) -> None:
    person.go(f"/corpora/{CORPUS}/search")
    person.fill("#q", "backups")
    Select(person.find("#beside")).select_by_value("dense-exact")
    person.press("Search")
    person.says("Both found")
    assert len(person.driver.find_elements(By.CSS_SELECTOR, ".beside section")) == 2


def ask(person: Person) -> None:
    """Asks, first as it streams, and then the page of the same question; opens the source."""
    person.go(f"/corpora/{CORPUS}/ask")
    old = person.find("html")
    person.fill("#q", QUESTION)
    person.find("#q").send_keys(Keys.ENTER)
    person.until("the answer has come", lambda: person.find(".answer .citations a"))
    assert person.find("html").id == old.id, "the script shows the answer"
    said = person.find(".said").text
    assert "35 days" in said, said
    person.driver.refresh()
    assert person.find(".said").text == said, "the page of the question says the same"
    source = person.find(".citations a")
    quote = person.find(".citations blockquote").get_property("textContent")
    address = urlsplit(source.get_attribute("href"))
    query = {name: values[0] for name, values in parse_qs(address.query).items()}
    source.click()
    marks = person.until("the place is marked", lambda: person.driver.find_elements(By.TAG_NAME, "mark"))
    marked = "".join(mark.get_property("textContent") for mark in marks)
    stored = call(
        person.origin,
        "clew.ingest.v1.IngestService/GetDocument",
        {"corpus": CORPUS, "documentId": query["id"]},
    )
    text = base64.b64decode(stored["document"]["text"])
    assert text.decode() == TEXT
    assert marked.encode() == text[int(query["start"]) : int(query["end"])], marked
    assert marked == quote, (marked, quote)
    top = marks[0].rect["y"] - person.driver.execute_script("return scrollY")
    assert 0 <= top < HEIGHT, "the marked place is in sight"
    whole = person.find(".stored").get_property("textContent")
    assert whole == TEXT, whole


def correct(person: Person) -> None:
    person.go(f"/corpora/{CORPUS}/user", user="ada", session="monday")
    person.find("#turn-0 summary").click()
    person.fill("#text-0", "I live in Lisbon.")
    person.find("#turn-0 form.fields button").click()
    person.says("I live in Lisbon.")
    assert "Porto" not in person.find("main").text
    person.find("#turn-0 summary").click()
    person.press("Forget this turn…")
    person.says("1 turn")
    person.press("Forget it")
    person.says("verified")
    link = person.find("a[download]").get_attribute("href")
    receipt = json.loads(base64.b64decode(link.partition(",")[2]))
    assert (receipt["turns"], receipt["user"], receipt["verified"]) == (1, "ada", True), receipt


def drain(person: Person) -> None:
    person.go("/cluster")
    person.find(f"button[aria-label='Drain {MEMBER}']").click()
    person.until("the page asks whether to", lambda: f"drain={MEMBER}" in person.driver.current_url)
    person.press("Drain it")

    def is_draining() -> bool:
        person.driver.refresh()
        rows = person.driver.find_elements(By.CSS_SELECTOR, "main tr")
        return any(MEMBER in row.text and "draining" in row.text for row in rows)

    person.until("the member drains", is_draining)


def pages() -> tuple[list[str], list[str]]:
    """The pages in two parts, each of which is looked at in time also on a busy machine."""
    of = f"/corpora/{CORPUS}"
    asked = urlencode({"q": QUESTION})
    found = [
        "/",
        "/connect",
        of,
        f"{of}/documents",
        f"{of}/documents?state=failed&prefix=x",
        f"{of}/document?id=backups.md&start=0&end=10",
        f"{of}/document?id=backups.md&version=1&start=0&end=10",
        f"{of}/document?id=h",
        "/corpora/long/document?id=line",
        f"{of}/document?id=nothing",
        f"{of}/search",
        f"{of}/search?q=backups&beside=sparse",
    ]
    derived = [
        f"{of}/ask",
        f"{of}/ask?{asked}&beside=naive",
        f"{of}/ask?{asked}&strategy=memwalker",
        f"{of}/graph",
        f"{of}/graph?q=Frankfurt&hops=2",
        f"{of}/graph?q=nobody",
        f"{of}/graph?id=h",
        f"{of}/tree",
        f"{of}/tree?id=backups.md",
        f"{of}/users",
        f"{of}/user?user=ada",
        f"{of}/user?user=ada&q=where",
        f"{of}/user?user=ada&session=monday",
        f"{of}/failures",
        f"{of}/runs",
    ]
    return found, derived


def look(person: Person, path: str, axe: str) -> list[str]:
    """The faults of a page in all windows. It is loaded once, which shows what a person sees who turns a phone."""
    driver, faults = person.driver, []
    person.go(path)
    for details in driver.find_elements(By.TAG_NAME, "details"):
        driver.execute_script("arguments[0].open = true", details)
    driver.execute_script(axe)
    for width in WIDTHS:
        set_width(driver, width)
        found = driver.execute_script(LOOK, width)
        for scheme in SCHEMES:
            set_scheme(driver, scheme)
            # What axe says depends on the width for few rules.
            if width == WIDTHS[0]:
                rules = RULES if scheme == SCHEMES[0] else COLOURS
                found += [f"{scheme}: {fault}" for fault in driver.execute_async_script(CHECK, rules)]
        faults += [f"{path} at {width} pixels: {fault}" for fault in found]
    said = [entry["message"] for entry in driver.get_log("browser")]
    # A page that is not there is one of those that are looked at.
    faults += [f"{path}: console: {text}" for text in said if "status of 404" not in text]
    return faults


def look_at(person: Person, paths: list[str]) -> list[str]:
    axe = AXE.read_text()
    return [fault for path in paths for fault in look(person, path, axe)]


def do(person: Person, *steps: Callable[[Person], None]) -> None:
    for step in steps:
        started = time.monotonic()
        step(person)
        print(f"{step.__name__}: {time.monotonic() - started:.1f} s")


def task_use(person: Person) -> list[str]:
    do(person, log_in, add, search, ask, correct)
    return []


def task_look(part: int) -> Callable[[Person], list[str]]:
    def look_at_part(person: Person) -> list[str]:
        log_in(person)
        return look_at(person, pages()[part])

    return look_at_part


def task_drain(person: Person) -> list[str]:
    do(person, drain)
    return look_at(person, ["/cluster", f"/cluster?drain={OTHER}"])


TASKS = {"use": task_use, "look": task_look(0), "look-on": task_look(1), "drain": task_drain}


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[2] not in TASKS:
        sys.exit(f"usage: pages.py URL {'|'.join(TASKS)}")
    if not AXE.is_file():
        sys.exit("there is no axe; `make setup` and then `.setup/install tests` install it")
    report(PATIENCE_FOR_ALL, lambda driver: TASKS[sys.argv[2]](Person(driver, sys.argv[1])))


if __name__ == "__main__":
    main()
