"""The script that a person would write for the report."""

from collections.abc import Mapping
from string import Template

from hermes_lab.tasks.report_generation.house_template.rules import SiteConfig

SCRIPT = Template("""
import csv
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

with open("$file") as file:
    items = [
        {"section": r[0], "name": r[1], "day": r[2], "state": r[3], "planned": Decimal(r[4]), "actual": Decimal(r[5])}
        for r in list(csv.reader(file))[1:]
    ]
$items
sections = $sections
unit = "$unit"

def money(value):
    $text
    $sign

def day(text):
    $day

def heading(number, name):
    $heading

def line(*cells):
    return "| " + " | ".join(cells) + " |"

def amounts(items):
    planned, actual = sum(item["planned"] for item in items), sum(item["actual"] for item in items)
    return [money(planned), money(actual), money($difference)]

def row(item):
    $name
    return line(name, day(item["day"]), *amounts([item]))

def table(labels, rows, items):
    plain = len(labels) - 3
    ruler = line(*["---"] * plain, *["---:"] * 3)
    head = [line(*labels), ruler, line(*[""] * plain, *[unit] * 3)]
    $table

members = {section: [item for item in items if item["section"] == section] for section in sections}
sums = [line(section, *amounts(members[section])) for section in sections]
parts = ["# $title", f"$as_of: {day('$date')}", "## " + heading(1, "$overview")]
parts.append(table(["$section", "$planned", "$actual", "$difference_label"], sums, items))
for number, section in enumerate(sections, 2):
    chosen = members[section]
    $chosen
    $rows
    parts.append("## " + heading(number, section))
    parts.append(table(["$item", "$booked", "$planned", "$actual", "$difference_label"], rows, chosen))
with open("report.md", "w") as file:
    file.write("\\n\\n".join(parts) + "\\n")
""")

LINES: Mapping[str, str] = {
    "items": "",
    "text": 'text = f"{abs(value):,.2f}"',
    "sign": 'return f"-{text}" if value < 0 else text',
    "day": "return text",
    "heading": "return name",
    "difference": "actual - planned",
    "name": 'name = item["name"]',
    "table": 'return "\\n".join([*head, *rows, line("Total", *[""] * (plain - 1), *amounts(items))])',
    "chosen": "",
    "rows": "rows = [row(item) for item in chosen]",
}
"""What someone writes who knows of no custom."""


def names(site_config: SiteConfig) -> Mapping[str, str]:
    """The words of a client in the script."""
    return {
        "title": site_config.title,
        "as_of": site_config.as_of,
        "overview": site_config.overview,
        "section": site_config.section,
        "item": site_config.item,
        "booked": site_config.booked,
        "planned": site_config.planned,
        "actual": site_config.actual,
        "difference_label": site_config.difference,
        "sections": repr(list(site_config.sections)),
        "unit": site_config.currency,
    }
