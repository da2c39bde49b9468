"""The script that a person would write for the figures."""

from collections.abc import Mapping
from string import Template

from hermes_lab.tasks.report_generation.figures.rules import PLAIN_BAR, PLAIN_HEIGHT, SiteConfig

SCRIPT = Template("""
import csv
import hashlib
import html
from datetime import date
from pathlib import Path

folder = Path("$folder")
figures = $figures

def digest(path):
    data = path.read_bytes()
    $data
    $hash
    $digest

def read(stem):
    with open(folder / f"{stem}.csv") as file:
        return list(csv.reader(file))[1:]

def total(stem):
    return sum(int(value) for _, value in read(stem) if value)

def draw(rows):
    known = [int(value) for _, value in rows if value]
    $full
    bars = []
    for place, (month, value) in enumerate(rows):
        $label
        $height
        $bar
    return "\\n".join(bars)

$order
page = ["<!DOCTYPE html>", '<html><head><meta charset="utf-8"><title>$title</title></head><body>', "<h1>$title</h1>"]
for number, (stem, title, unit) in enumerate(figures, 1):
    rows = read(stem)
    spans = {
        "$number_class": f"$word {$numeral}",
        "$caption_class": $caption,
        "$source_class": $source,
        "$hash_class": digest(folder / f"{stem}.csv"),
    }
    page.append(f'<figure id="fig-{number}">')
    page.append('<svg viewBox="0 0 400 200" xmlns="http://www.w3.org/2000/svg">')
    page.append(draw(rows) + "</svg>")
    page.append("<figcaption>" + " ".join(f'<span class="{c}">{html.escape(t)}</span>' for c, t in spans.items()))
    page.append("</figcaption></figure>")
page.append("</body></html>")
with open("report.html", "w") as file:
    file.write("\\n".join(page) + "\\n")
""")

LINES: Mapping[str, str] = {
    "data": "",
    "hash": "digits = hashlib.sha256(data).hexdigest()",
    "digest": "return digits[:12]",
    "full": "full = max(known)",
    "label": "label = month",
    "height": PLAIN_HEIGHT,
    "bar": PLAIN_BAR,
    "order": "",
    "word": "Figure",
    "numeral": "number",
    "caption": 'f"{title} ({unit})"',
    "source": 'f"{stem}.csv"',
}
"""What someone writes who knows of no custom."""


def names(site_config: SiteConfig) -> Mapping[str, str]:
    """The words of a department in the script."""
    number, caption, source, digest = site_config.classes
    return {
        "title": site_config.title,
        "figures": repr([tuple(series) for series in site_config.series]),
        "number_class": number,
        "caption_class": caption,
        "source_class": source,
        "hash_class": digest,
    }
