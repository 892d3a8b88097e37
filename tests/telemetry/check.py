"""Holds alerts and dashboards to what they promise. Fails with everything that is wrong.

- The alert rules are rules, and their tests pass (`promtool`).
- Every alert is shown to fire, and not to fire, and has a section in the runbook for whoever it wakes, and a row
  with its severity in the table of all alerts there.
- Every expression of every panel is one that Prometheus can read.
- With `--scrape FILE`, what a real server answered to `GET /metrics`: every metric that is asked about is
  one of those.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

WORKSPACE = Path(__file__).resolve().parent.parent.parent
RUNBOOK = WORKSPACE / "docs/operate/runbook.md"
CHART = WORKSPACE / "helm" / "clew"
ALERTS = CHART / "alerts" / "clew.yaml"
TESTS = CHART / "alerts" / "clew_test.yaml"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
# What Grafana puts in for its variables.
VARIABLES = {"$__rate_interval": "5m", "$__range": "3h", "$instance": ".*"}
METRIC = re.compile(r"\bclew_[a-z0-9_]+")
# A row of the runbook's table "All alerts": the alert, the section that it links to, and the severity.
ROW = re.compile(r"^\| \[(\w+)\]\(#([a-z0-9-]+)\) \| (\w+) \|", re.MULTILINE)
# What a histogram `x` is asked about by.
OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def promtool(*arguments):
    """What promtool finds wrong, if anything."""
    ran = subprocess.run(
        ["promtool", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return [] if ran.returncode == 0 else [f"promtool {' '.join(map(str, arguments))}:\n{ran.stdout}"]


def alerts():
    """Every alert rule."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels(dashboard):
    """Every panel, those in rows included."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def expressions():
    """Every expression of every panel, with the panel's place for a person."""
    found = []
    for file in DASHBOARDS:
        for panel in panels(json.loads(file.read_text())):
            for target in panel.get("targets", []):
                expression = target["expr"]
                for variable, value in VARIABLES.items():
                    expression = expression.replace(variable, value)
                found.append((f"{file.name}: {panel['title']}", expression))
    return found


def untested():
    """Alerts that are not shown to fire, or not to stay silent."""
    fires, stays_silent = set(), set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case["exp_alerts"] else stays_silent).add(case["alertname"])
    for alert in alerts():
        name = alert["alert"]
        if name not in fires:
            yield f"{TESTS.name}: {name} is never shown to fire"
        if name not in stays_silent:
            yield f"{TESTS.name}: {name} is never shown not to fire"


def unexplained():
    """Alerts that the runbook has no heading for."""
    headings = re.findall(r"^#+ (.+)$", RUNBOOK.read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for alert in alerts():
        annotations = alert.get("annotations", {})
        for needed in ("summary", "description", "runbook"):
            if needed not in annotations:
                yield f"{ALERTS.name}: {alert['alert']} has no {needed}"
        if "severity" not in alert.get("labels", {}):
            yield f"{ALERTS.name}: {alert['alert']} has no severity"
        anchor = annotations.get("runbook", "").partition("#")[2]
        if anchor not in anchors:
            yield f"{RUNBOOK.name} has no heading `{anchor}` for {alert['alert']}"


def unlisted():
    """Alerts that the runbook's table of all alerts does not have with their severity, and rows of no alert."""
    table = RUNBOOK.read_text().partition("\n## All alerts\n")[2].partition("\n## ")[0]
    rows = {name: (anchor, severity) for name, anchor, severity in ROW.findall(table)}
    for alert in alerts():
        name, severity = alert["alert"], alert.get("labels", {}).get("severity")
        if name not in rows:
            yield f"{RUNBOOK.name} has no row for {name} in the table of all alerts"
            continue
        listed_anchor, listed_severity = rows.pop(name)
        if listed_severity != severity:
            yield f"{RUNBOOK.name}: {name} is `{listed_severity}` in the table of all alerts, its rule is `{severity}`"
        if listed_anchor != alert.get("annotations", {}).get("runbook", "").partition("#")[2]:
            yield f"{RUNBOOK.name}: {name} leads to another section from the table of all alerts than from its rule"
    for name in rows:
        yield f"{RUNBOOK.name} has a row for {name} in the table of all alerts, which is no alert"


def unreadable():
    """Expressions of panels that Prometheus cannot read."""
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, (_, expression) in enumerate(expressions())
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "panels.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        return promtool("check", "rules", file)


def unknown(scrape):
    """Metrics that are asked about and that the server does not have."""
    exported = set(re.findall(r"^# TYPE (\S+) ", Path(scrape).read_text(), re.MULTILINE))
    asked = [(f"{ALERTS.name}: {alert['alert']}", alert["expr"]) for alert in alerts()]
    for place, expression in asked + expressions():
        for metric in METRIC.findall(expression):
            if metric not in exported and OF_HISTOGRAM.sub("", metric) not in exported:
                yield f"{place}: no server exports {metric}"


def main():
    """Checks, and says what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scrape", help="what a server answered to GET /metrics")
    arguments = parser.parse_args()
    if shutil.which("promtool") is None:
        sys.exit("error: there is no promtool; `.setup/install tests` installs it")
    wrong = [
        *promtool("check", "rules", ALERTS),
        *promtool("test", "rules", TESTS),
        *untested(),
        *unexplained(),
        *unlisted(),
        *unreadable(),
        *(unknown(arguments.scrape) if arguments.scrape else ()),
    ]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(alerts())} alerts and {len(expressions())} expressions of {len(DASHBOARDS)} dashboards are well")


if __name__ == "__main__":
    main()
