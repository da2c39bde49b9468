"""The words of departments' figures, the sheets on them and requests; none is shared between the splits."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from hermes_lab.tasks.report_generation._conventions import words
from hermes_lab.tasks.report_generation.figures.rules import Series


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    titles: tuple[str, ...]
    months: tuple[str, ...]
    series: tuple[Series, ...]
    classes: tuple[tuple[str, str, str, str], ...]
    highlights: tuple[str, ...]
    gaps: tuple[str, ...]
    sheet: Template


def _series(text: str) -> tuple[Series, ...]:
    return tuple(Series(*words(line)) for line in text.strip().splitlines())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        titles=words("The year in figures, Monthly figures, Figures for the board, Use and stock"),
        months=words("month, period"),
        series=_series("""
            fuel, Fuel drawn, litres
            visits, Visits at the desk, visits
            repairs, Repairs finished, jobs
            power, Power used, kilowatt hours
            paper, Paper printed, reams
            parcels, Parcels sent, parcels
            calls, Calls answered, calls
            sales, Goods sold, pieces
            waste, Waste collected, bags
            training, Hours of training, hours
        """),
        classes=(
            ("number", "caption", "source", "hash"),
            ("no", "title", "data", "sum"),
            ("label", "text", "file", "digest"),
        ),
        highlights=words("peak, key, accent"),
        gaps=words("gap, missing, blank"),
        sheet=Template("""\
# Figures in a report

A report is one HTML file with the heading `<h1>$title</h1>` and a figure for each line of this list, in this order:

$list

A figure looks like this, here the first, with `...` where the data comes in:

    <figure id="fig-1">
    <svg viewBox="0 0 400 200" xmlns="http://www.w3.org/2000/svg">
    <rect x="0" y="..." width="20" height="..." data-label="2024-01"/>
    </svg>
    <figcaption>
    <span class="$number">Figure 1</span> <span class="$caption">$first</span>
    <span class="$source">$file</span> <span class="$hash">...</span>
    </figcaption>
    </figure>

- Ids and numbers count up from 1. The caption is the title with the unit in parentheses. Then come the name of the
  file and the first 12 hex digits of its SHA-256.
- There is a `rect` for each row with a number, none for an empty cell, and no others. For row n of the table,
  counted from 0 and with the empty ones, x is 30 n. The largest number of a table is 200 high, the others in
  proportion, with one decimal; y is 200 less the height. `data-label` is the $month as in the table. A `rect` has
  no further attributes.
- No scripts, no pictures from elsewhere.

Departments that have asked for something else get that.
"""),
    ),
    "validation": Vocabulary(
        titles=words("Trends of the term, Charts for the meeting"),
        months=words(
            "calendar_month",
        ),
        series=_series("""
            diesel, Diesel burnt, gallons
            meals, Meals cooked, plates
            beds, Beds taken, nights
            ink, Ink bought, cartridges
            complaints, Complaints heard, letters
            steel, Steel cut, metres
        """),
        classes=(("ordinal", "legend", "origin", "fingerprint"),),
        highlights=words("strong, alert"),
        gaps=words("void, absent"),
        sheet=Template("""\
# How charts are published

One page, headed `<h1>$title</h1>`, carries these charts from top to bottom:

$list

Markup, shown for the top one (dots stand for what has to be worked out):

    <figure id="fig-1">
    <svg viewBox="0 0 400 200" xmlns="http://www.w3.org/2000/svg">
    <rect x="0" y="..." width="20" height="..." data-label="2024-01"/>
    </svg>
    <figcaption>
    <span class="$number">Figure 1</span> <span class="$caption">$first</span>
    <span class="$source">$file</span> <span class="$hash">...</span>
    </figcaption>
    </figure>

* `$number` and the id go 1, 2, 3 and so on; `$caption` joins title and bracketed unit as above; `$source` is the
  file's name; `$hash` are twelve hex digits, the beginning of the SHA-256 over the file.
* Every filled row of the table makes one `rect`. Blank rows make none but keep their room: row number n (the top
  one is 0) begins at x = 30 n. Heights are to scale, 200 for the table's maximum, printed to a tenth; y fills up to
  200. The $month goes unchanged into `data-label`. Nothing else is drawn or attributed.
* Neither scripts nor outside images.

Special wishes of a department take precedence.
"""),
    ),
    "heldout": Vocabulary(
        titles=words("Pictures of the quarter, What the numbers show, Statistical annex"),
        months=words("ym, month_of_record"),
        series=_series("""
            acorns, Acorns gathered, sacks
            tours, Tours given, groups
            barrels, Barrels filled, hectolitres
            samples, Samples tested, vials
            contracts, Contracts read, pages
            enquiries, Enquiries closed, cases
            lamps, Lamps replaced, lamps
            rainfall, Rain measured, millimetres
        """),
        classes=(
            ("ref", "heading", "provenance", "checksum"),
            ("index", "descr", "table", "seal"),
        ),
        highlights=words("emphasis, notable, starred"),
        gaps=words("unknown, hollow, nodata"),
        sheet=Template("""\
# Rules for statistical pictures

The output is a single HTML document whose `<h1>$title</h1>` is followed by one picture per entry, sequence as
given:

$list

Pattern of a picture (entry one; an ellipsis means a computed value):

    <figure id="fig-1">
    <svg viewBox="0 0 400 200" xmlns="http://www.w3.org/2000/svg">
    <rect x="0" y="..." width="20" height="..." data-label="2024-01"/>
    </svg>
    <figcaption>
    <span class="$number">Figure 1</span> <span class="$caption">$first</span>
    <span class="$source">$file</span> <span class="$hash">...</span>
    </figcaption>
    </figure>

1. Numbering starts at 1, for ids likewise. In `$caption`: title, then unit between parentheses. In `$source`: file
   name. In `$hash`: SHA-256 of that file, cut to its initial 12 hex digits.
2. A bar is a `rect`, one per row that has a value; rows lacking it are skipped, though they take up space. The bar
   of row n, where n starts at 0, stands at x = 30 n; it is 200 high if its value is the greatest, otherwise
   proportionally less (to one decimal place), and y plus height is 200. Its `data-label` repeats the $month
   literally. Draw no other `rect`, give it no other attribute.
3. Scripts and external images are forbidden.

Where a department has its own habits, these come first.
"""),
    ),
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Please make the figures of {year} for {place}. The tables are in {folder}.",
        "{place} needs the figures for {year}; you find the data in {folder}.",
        "Draw the {year} figures for {place} from the tables in {folder}.",
        "The tables of {year} are in {folder}; {place} wants them as figures.",
        "We publish the {year} figures of {place} this week. Take the CSV files in {folder}.",
        "Could you turn the tables in {folder} into figures for {place}? It is the data of {year}.",
        "For {place}: figures from the {year} data in {folder}.",
        "{year} is closed, so {place} can have its figures. See {folder} for the data.",
        "I need a page of figures for {place}, made from {folder}, for {year}.",
    ),
    "validation": (
        "{place} would like its charts of {year}; {folder} holds the tables.",
        "Chart the {year} tables in {folder}, please, on behalf of {place}.",
        "A chart page is owed to {place}. Year {year}, tables in {folder}.",
        "What lies in {folder} for {year} is to become charts for {place}.",
    ),
    "heldout": (
        "The annex of {place} lacks its pictures for {year}; they derive from {folder}.",
        "Produce the statistical pictures that {place} ordered: year {year}, tables under {folder}.",
        "Under {folder} are the {year} tables. Illustrate them for {place}.",
        "{place} is going to print. Its pictures for {year} must be generated from {folder}.",
        "Somebody should illustrate {year} for {place}. The raw tables: {folder}.",
        "Illustrate the tables under {folder} ({year}) for {place}, please.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Write report.html as figures.md says.",
        "The result is report.html, by the rules of figures.md.",
        "figures.md shows how a figure is made; save them all in report.html.",
        "All of them go into report.html. How they look is in figures.md.",
        "Follow figures.md and leave report.html.",
    ),
    "validation": (
        "Publish to report.html according to figures.md.",
        "Their form is described in figures.md, the page is called report.html.",
    ),
    "heldout": (
        "Obey figures.md; the document to deliver is report.html.",
        "The document, report.html, has to conform to figures.md.",
        "What figures.md prescribes applies, and report.html is the file we expect.",
    ),
}
