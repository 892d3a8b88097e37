"""Draws the end of the demo's output as a terminal: `make demo | picture.py >docs/pictures/demo.svg`.

Standard input is cut before the first question. Long lines are broken at words.
"""

import sys
import textwrap
from html import escape

COLUMNS = 100
LINE, CHARACTER, MARGIN = 18, 7.8, 16
STYLE = """
  .page { fill: #fcfcfb; stroke: #dddcd6 }
  text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1a1a19; white-space: pre }
  .asked { font-weight: 600 } .faint { fill: #62615c }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1a1a19; stroke: #3d3c38 } text { fill: #f4f3ee } .faint { fill: #b3b1a8 }
  }
"""


def kind(line):
    """Returns the class of a line: a question, what is cited, or the answer."""
    if line.startswith("> "):
        return "asked"
    return "faint" if line.startswith((" ", "[", "confidence", "Run", "quoted")) else ""


def main():
    lines = sys.stdin.read().strip().splitlines()
    asked = next((number for number, line in enumerate(lines) if line.startswith("> ")), None)
    if asked is None:
        sys.exit("picture.py: expected the output of the demo, with its questions")
    drawn = []
    for line in lines[asked:]:
        parts = textwrap.wrap(line, COLUMNS, drop_whitespace=False, subsequent_indent="    ") or [""]
        drawn += [(kind(line), part.rstrip()) for part in parts]
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), len(drawn) * LINE + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">')
    print(f"<title>Questions to the demo and its answers</title>\n<style>{STYLE}</style>")
    print(f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>')
    for number, (name, line) in enumerate(drawn):
        if line:
            place = f'x="{MARGIN}" y="{MARGIN + LINE * number + 13}"'
            print(f'<text {place} class="{name}">{escape(line)}</text>'.replace(' class=""', ""))
    print("</svg>")


if __name__ == "__main__":
    main()
