"""Checks every link of the documentation, without a network. Fails with every breach.

- A relative link leads to a file of the repository, and its fragment to a heading of that file.
- Pages in `docs/` link to each other only: as a book they lie apart from the rest of the repository.
- `docs/SUMMARY.md` lists every page once.
- The README stays short: details belong in `docs/`.
"""

import re
import subprocess
import sys
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent.parent.parent
README_LINES = 180

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def pages():
    """All Markdown files of the repository that are not left out by git, tracked or new."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    ran = subprocess.run(listed, cwd=WORKSPACE, stdout=subprocess.PIPE, text=True, check=True)
    return [page for name in ran.stdout.splitlines() if (page := WORKSPACE / name).is_file()]


def slug(heading):
    """The fragment that hosts of repositories and mdBook make of a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def fragments(page):
    found = {}
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", FENCE.sub("", page.read_text()), re.MULTILINE):
        name = slug(heading)
        number = found.get(name, 0)
        found[name] = number + 1
        yield f"{name}-{number}" if number else name


def links(page):
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    return LINK.findall(text)


def breaches():
    docs = WORKSPACE / "docs"
    known = {}
    for page in pages():
        name = page.relative_to(WORKSPACE)
        for link in links(page):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, fragment = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{name}: `{link}` leads nowhere"
                continue
            if page.is_relative_to(docs) and not target.is_relative_to(docs):
                yield f"{name}: `{link}` leads out of docs/; name the file as `code` instead"
            if fragment and target.suffix == ".md":
                if target not in known:
                    known[target] = set(fragments(target))
                if fragment not in known[target]:
                    yield f"{name}: `{link}` names no heading of its page"
    listed = [(docs / link).resolve() for link in links(docs / "SUMMARY.md")]
    for page in docs.rglob("*.md"):
        times = listed.count(page)
        if page.name != "SUMMARY.md" and times != 1:
            yield f"docs/SUMMARY.md lists {page.relative_to(docs)} {times} times, expected once"
    lines = len((WORKSPACE / "README.md").read_text().splitlines())
    if lines > README_LINES:
        yield f"README.md has {lines} lines, expected at most {README_LINES}: move details to docs/"


def main():
    problems = sorted(breaches())
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{len(pages())} pages, {len(problems)} breaches")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
