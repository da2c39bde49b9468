"""The script that a person would write for the restated figures."""

from collections.abc import Mapping
from string import Template

from hermes_lab.tasks.report_generation.restatement.rules import SiteConfig

SCRIPT = Template("""
import csv
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

lines = $lines
filings = sorted(Path("$folder").glob("*.csv"))
quarters = [path.stem for path in filings]
history = {}
for number, path in enumerate(filings):
    with open(path) as file:
        for name, quarter, amount, reason in list(csv.reader(file))[1:]:
            age = number - quarters.index(quarter)
            history.setdefault((quarter, name), []).append((amount, reason, age))

def stands(entries):
    first = int(entries[0][0])
    amounts = [first]
    for amount, reason, age in entries[1:]:
        if $skip:
            continue
        amounts.append(int(amount))
    $pick

def figure(value):
    $figure

def change(first, standing):
    $change

def label(quarter):
    $quarter

rows, changes = [], []
for quarter, name in $order:
    entries = history[quarter, name]
    first, standing = int(entries[0][0]), stands(entries)
    row = [name, label(quarter), figure(first), $standing]
    row.append(change(first, standing) if standing != first else "$still")
    restated = standing != first
    $special
    rows.append(row)
    if restated:
        changes.append(row)

head = ["$line_label", "$quarter_label", "$first_label", "$standing_label", "$change_label"]
with open("standing.csv", "w", newline="") as file:
    csv.writer(file, lineterminator="\\n").writerows([head, *rows])
table = ["| " + " | ".join(cells) + " |" for cells in [head, ["---", "---", "---:", "---:", "---:"], *changes]]
with open("changes.md", "w") as file:
    file.write(f"# $heading\\n\\n$restated: {len(changes)} of {len(rows)}\\n\\n" + "\\n".join(table) + "\\n")
""")

LINES: Mapping[str, str] = {
    "skip": 'amount == "-"',
    "pick": "return amounts[-1]",
    "figure": "return str(value)",
    "change": 'return f"{standing - first:+d}"',
    "quarter": "return quarter",
    "order": "[(quarter, name) for quarter in quarters for name in lines]",
    "standing": "figure(standing)",
    "still": "0",
    "special": "",
}
"""What someone writes who knows of no custom."""


def names(site_config: SiteConfig) -> Mapping[str, str]:
    """The words of a board in the script."""
    return {
        "lines": repr(list(site_config.lines)),
        "line_label": site_config.line,
        "quarter_label": site_config.quarter,
        "first_label": site_config.first,
        "standing_label": site_config.standing,
        "change_label": site_config.change,
        "heading": site_config.heading,
        "restated": site_config.restated,
    }
