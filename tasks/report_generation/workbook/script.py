"""The script that a person would write for the workbook."""

from collections.abc import Mapping
from string import Template

from hermes_lab.tasks.report_generation.workbook.rules import SiteConfig

SCRIPT = Template("""
import csv
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from xlsx import Cell, save

year = "$year"
tables = $tables
unit = "$unit"

def money(value):
    return Cell(float(value), "$format")

def day(text):
    $day

def document(text):
    $document

def add_up(column, rows, cell):
    return cell._replace(formula=$formula)

def sheet(head, units, rows, total):
    $sheet

sheets, lines, totals = [], [], {}
count_all, total_all = 0, Decimal(0)
for number, (stem, title) in enumerate(tables, 1):
    with open(f"$folder/{stem}.csv") as file:
        data = [
            (name, date, kind, $value if amount else None) for name, date, kind, amount in list(csv.reader(file))[1:]
        ]
    rows = [
        [document(name), day(date), kind, money(value) if value is not None else $missing]
        for name, date, kind, value in data
    ]
    counted = [row for row in data if $counts]
    total, count = sum(row[3] for row in counted if row[3] is not None), $count
    tab = $tab
    totals[tab] = total
    ending = ["$total", None, None, add_up("D", rows, money(total))]
    head = ["$document_label", "$day_label", "$kind", "$amount"]
    sheets.append((tab, sheet(head, [None, None, None, unit], rows, ending)))
    lines.append([title, count, money(total)])
    count_all, total_all = count_all + count, total_all + total

ending = ["$total", add_up("B", lines, Cell(count_all)), add_up("C", lines, money(total_all))]
summary = ("$summary", sheet(["$table", "$count_label", "$amount"], [None, "$count_unit", unit], lines, ending))
$order
save("book.xlsx", sheets)
""")

LINES: Mapping[str, str] = {
    "format": "#,##0.00",
    "day": "return text",
    "document": "return text",
    "formula": '""',
    "sheet": "return [head, units, *rows, total]",
    "value": "Decimal(amount)",
    "missing": "None",
    "counts": "True",
    "count": "len(counted)",
    "tab": "title",
    "total": "Total",
    "order": "sheets = [summary, *sheets]",
}
"""What someone writes who knows of no custom."""


def names(site_config: SiteConfig) -> Mapping[str, str]:
    """The words of a division in the script."""
    return {
        "tables": repr([tuple(source) for source in site_config.tables]),
        "unit": site_config.currency,
        "document_label": site_config.document,
        "day_label": site_config.day,
        "kind": site_config.kind,
        "amount": site_config.amount,
        "summary": site_config.summary,
        "table": site_config.table,
        "count_label": site_config.count,
        "count_unit": site_config.unit,
    }
