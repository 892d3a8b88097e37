"""Opens report pages in a headless Chromium and says what a person would not see there.

Each page is looked at in a wide and in a narrow window, light and dark. It must load nothing, write
nothing to the console and fit the window; its plots must be there, with marks and texts that can be told
from the page and lie inside of the plot. Run by `tests/answers/evaluation.rs`; to run it by hand:

    .cache/python/bin/python tests/python/page.py report.html
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service

# In CSS pixels. A headless window cannot be narrower than about 500, so that both are emulated.
WIDTHS = (1280, 480)
HEIGHT = 900
SCHEMES = ("light", "dark")
# Seconds that a page may take to load or to be looked at, and the browser to end; and that all may take,
# which with that is less than the test waits that runs this.
PATIENCE = 20
PATIENCE_FOR_ALL = 80
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # A picture of what lies below the window is taken without them, and everything would be elsewhere.
    "--hide-scrollbars",
)
# That are printed: one cause may show in every mark.
MOST_FAULTS = 50
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

# Gives [faults, numbers of what was looked at, boxes of the plots on the page].
LOOK = """
const faults = [], seen = {plots: 0, marks: 0, texts: 0, tables: 0};
const [width, isWide] = arguments;
// Boxes are rounded to fractions of a pixel.
const SLACK = 0.6;

const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
function channels(colour) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
// WCAG 2.2, relative luminance and contrast ratio.
function luminance([red, green, blue]) {
  const linear = [red, green, blue].map(channel => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}
function contrast(colour, other) {
  const [dark, light] = [luminance(colour), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}
const page = channels(getComputedStyle(document.body).backgroundColor);
if (page[3] < 255) faults.push("the page has no background colour");
// Success criteria 1.4.3 and 1.4.11 of WCAG 2.2.
function isVisible(element, least) {
  const fill = channels(getComputedStyle(element).fill);
  return fill[3] === 255 && contrast(fill, page) >= least
    && element.checkVisibility({opacityProperty: true, visibilityProperty: true});
}
function isInside(box, frame) {
  return box.left >= frame.left - SLACK && box.right <= frame.right + SLACK
    && box.top >= frame.top - SLACK && box.bottom <= frame.bottom + SLACK;
}
// A line of text is lower than its box.
function overlap(box, other) {
  const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
  const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
  return wide > 1 && high > 0.3 * Math.min(box.height, other.height);
}

for (const entry of performance.getEntriesByType("resource")) faults.push(`it loads ${entry.name}`);
if (document.scripts.length > 0) faults.push("it has a script");
for (const details of document.querySelectorAll("details")) details.open = true;

if (innerWidth !== width) faults.push(`the window is ${innerWidth} pixels wide`);
const root = document.documentElement;
if (root.scrollWidth > innerWidth) faults.push(`it is ${root.scrollWidth} pixels wide and must be scrolled`);
for (const table of document.querySelectorAll("table")) {
  seen.tables += 1;
  const name = table.caption ? table.caption.textContent : "";
  const box = table.getBoundingClientRect(), frame = table.parentElement.getBoundingClientRect();
  if (!(box.width > 0 && box.height > 0)) faults.push(`the table \\`${name}\\` has no size`);
  if (box.right > frame.right + SLACK) {
    const overflow = getComputedStyle(table.parentElement).overflowX;
    if (isWide) faults.push(`the table \\`${name}\\` must be scrolled in a wide window`);
    else if (!["auto", "scroll"].includes(overflow)) faults.push(`the table \\`${name}\\` is cut off`);
  }
}

const plots = [...document.querySelectorAll("svg")];
if (plots.length === 0) faults.push("it has no plot");
const places = plots.map(plot => {
  seen.plots += 1;
  const frame = plot.getBoundingClientRect();
  const title = plot.querySelector(":scope > title");
  const name = title ? title.textContent : "";
  const fault = text => faults.push(`plot \\`${name}\\`: ${text}`);
  if (!(frame.width > 0 && frame.height > 0)) fault("it has no size");
  if (!plot.checkVisibility({opacityProperty: true, visibilityProperty: true})) fault("it is not shown");
  if (frame.left < 0 || frame.right > innerWidth) fault("it does not fit the window");
  const marks = [...plot.querySelectorAll("rect, circle")];
  if (marks.length === 0) fault("it has no marks");
  const probes = [];
  for (const mark of marks) {
    seen.marks += 1;
    const box = mark.getBoundingClientRect();
    const of = mark.parentElement.querySelector(":scope > title");
    const what = `the mark of \\`${of ? of.textContent : ""}\\``;
    if (!(box.width > 0 && box.height > 0)) fault(`${what} has no size`);
    else if (!isInside(box, frame)) fault(`${what} is cut off`);
    if (!isVisible(mark, 3)) fault(`${what} cannot be told from the page`);
    // The smallest are mostly their own edges.
    if (box.width > 4 && box.height > 4) {
      const x = box.left + box.width / 2 - frame.left, y = box.top + box.height / 3 - frame.top;
      probes.push({what, x, y});
    }
  }
  const texts = [...plot.querySelectorAll("text")];
  const boxes = texts.map(text => text.getBoundingClientRect());
  if (texts.length === 0) fault("it has no texts");
  texts.forEach((text, at) => {
    seen.texts += 1;
    const said = text.textContent, box = boxes[at];
    if (!said.trim() || !(box.width > 0 && box.height > 0)) fault(`the text \\`${said}\\` has no size`);
    else if (!isInside(box, frame)) fault(`the text \\`${said}\\` is cut off`);
    if (!isVisible(text, 4.5)) fault(`the text \\`${said}\\` cannot be read on the page`);
    boxes.slice(0, at).forEach((other, before) => {
      if (overlap(box, other)) fault(`the text \\`${said}\\` covers \\`${texts[before].textContent}\\``);
    });
  });
  const clip = {x: frame.left + scrollX, y: frame.top + scrollY, width: frame.width, height: frame.height};
  return {name, clip, probes, page};
});
return [faults, seen, places];
"""

# Which marks of a plot its picture does not show.
COMPARE = """
const [picture, plot, done] = arguments;
const image = new Image();
image.onerror = () => done(["no picture of it could be read"]);
image.onload = () => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d", {willReadFrequently: true});
  context.drawImage(image, 0, 0);
  const hidden = plot.probes.filter(({x, y}) => {
    const pixel = context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data;
    return plot.page.every((channel, at) => Math.abs(channel - pixel[at]) < 16);
  });
  done(hidden.map(({what}) => `${what} is not painted`));
};
image.src = "data:image/png;base64," + picture;
"""


def program(names: tuple[str, ...], places: tuple[str, ...] = ()) -> str:
    """The path of the first of these programs that there is."""
    paths = [*filter(None, map(shutil.which, names)), *filter(os.path.exists, places)]
    if not paths:
        sys.exit(f"there is no {names[0]}; `make setup` installs it where it can")
    return paths[0]


def browser(home: str) -> webdriver.Chrome:
    """A browser of its own, which knows nothing of this machine's and reaches no network."""
    options = webdriver.ChromeOptions()
    options.binary_location = program(BROWSERS, APPLICATIONS)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    folders = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"), home)
    # With the paths of both given nothing is fetched; the variable makes sure of it.
    os.environ["SE_OFFLINE"] = "true"
    service = Service(executable_path=program(("chromedriver",)), env={**os.environ, **folders})
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    return driver


def set_width(driver: webdriver.Chrome, width: int) -> None:
    metrics = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def set_scheme(driver: webdriver.Chrome, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def look(driver: webdriver.Chrome, page: pathlib.Path, width: int, scheme: str) -> tuple[list[str], dict]:
    """The faults of a page, and the numbers of what was looked at."""
    set_width(driver, width)
    set_scheme(driver, scheme)
    driver.get(page.resolve().as_uri())
    faults, seen, plots = driver.execute_script(LOOK, width, width == max(WIDTHS))
    # Before this script's own pictures.
    faults += [f"console: {entry['message']}" for entry in driver.get_log("browser")]
    for plot in plots:
        clip = {**plot["clip"], "scale": 1}
        if not (clip["width"] and clip["height"]):
            continue
        request = {"clip": clip, "captureBeyondViewport": True}
        picture = driver.execute_cdp_cmd("Page.captureScreenshot", request)["data"]
        hidden = driver.execute_async_script(COMPARE, picture, plot)
        faults += [f"plot `{plot['name']}`: {fault}" for fault in hidden]
    return faults, seen


def background(driver: webdriver.Chrome) -> str:
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def check(driver: webdriver.Chrome, page: pathlib.Path) -> list[str]:
    """The faults of a page in all windows."""
    faults, backgrounds = [], {}
    for width in WIDTHS:
        for scheme in SCHEMES:
            where = f"{page.name} at {width} pixels, {scheme}"
            try:
                found, seen = look(driver, page, width, scheme)
                backgrounds[scheme] = background(driver)
            except WebDriverException as error:
                # Below the first line are addresses in the browser.
                return [*faults, f"{where}: {(error.msg or 'no answer').splitlines()[0]}"]
            faults += [f"{where}: {fault}" for fault in found]
            numbers = ", ".join(f"{number} {what}" for what, number in seen.items())
            print(f"{where}: {numbers}, {len(found)} faults")
    if len(set(backgrounds.values())) == 1:
        faults.append(f"{page.name}: its background is as light in the dark")
    return faults


class OutOfTime(Exception):
    """Not a `TimeoutError`, which would be taken for one of the connection to the browser."""


def give_up(*_: object) -> None:
    raise OutOfTime


def report(seconds: int, look: Callable[[webdriver.Chrome], list[str]]) -> None:
    """Prints the faults that `look` finds in a browser within so many seconds, and ends the program if there are any."""
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        driver = browser(home)
        try:
            faults = look(driver)
        except OutOfTime:
            faults = [f"this takes more than {seconds} seconds"]
        finally:
            signal.alarm(PATIENCE)
            driver.quit()
            signal.alarm(0)
    for fault in faults[:MOST_FAULTS]:
        print(fault, file=sys.stderr)
    if faults:
        sys.exit(f"{len(faults)} faults")
    print("all is well")


def main() -> None:
    pages = [pathlib.Path(name) for name in sys.argv[1:]]
    if not pages or not all(page.is_file() for page in pages):
        sys.exit("usage: page.py FILE...")
    report(PATIENCE_FOR_ALL, lambda driver: [fault for page in pages for fault in check(driver, page)])


if __name__ == "__main__":
    main()
