"""The words of clients' reports, their style sheets and requests; none is shared between the splits."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from hermes_lab.tasks.report_generation._conventions import words


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    titles: tuple[str, ...]
    as_of: tuple[str, ...]
    overviews: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """Of the columns: section, item, day, state, planned, actual, difference."""
    currencies: tuple[str, ...]
    states: tuple[str, ...]
    sections: Mapping[str, tuple[str, ...]]
    """The items that can stand in each."""
    rest: tuple[str, ...]
    """What small items can be called together."""
    all: tuple[str, ...]
    """What a row of totals can be called."""
    style: Template
    template: Template


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        titles=words("Spending report, Cost review, Budget statement, Expense report"),
        as_of=words("As of, Closed on"),
        overviews=words("Overview, Summary"),
        labels=(
            words("Section, Item, Booked, Status, Planned, Actual, Difference"),
            words("Area, Entry, Paid, State, Budget, Spent, Deviation"),
            words("Group, Line, Posted, Stage, Target, Result, Gap"),
        ),
        currencies=words("EUR, USD, CHF"),
        states=words("open, settled, disputed, estimated, deferred"),
        sections={
            "Vehicles": words("Tyres, Fuel, Brakes, Batteries, Inspections, Wipers, Bulbs, Towing, Mirrors"),
            "Buildings": words("Rent, Roof work, Windows, Paint, Locks, Carpets, Lifts, Gutters, Signs"),
            "Staff": words("Wages, Courses, Uniforms, Bonuses, Overtime, Pensions, Badges, Meals, Vaccines"),
            "Supplies": words("Paper, Gloves, Soap, Cables, Filters, Boxes, Ink, Rope, Tape"),
            "Services": words("Insurance, Audits, Cleaning, Waste, Guards, Hosting, Postage, Permits, Surveys"),
            "Equipment": words("Pumps, Ladders, Drills, Scales, Freezers, Printers, Mowers, Welders, Sensors"),
        },
        rest=words("Sundry, Other, Minor items"),
        all=words("Sum, All together, Overall"),
        style=Template("""\
# How our reports are set

- Sections stand in the order of the template, and so does the $overview table. Items keep the order of the data.
- Every table has a header row and, right below it (after the Markdown ruler), a units row: the currency ($currency)
  in each column of money, nothing in the others. The last row is called Total and adds up each column of money.
- Amounts have a comma between thousands, a point and two decimals; a negative amount has a minus in front:
  -1,234.50.
- $difference is $actual less $planned, in every row.
- Days are written 2024-03-27.
- Headings are those of the template, word for word.
- One table a section; no further headings.

What a client is used to goes before this sheet.
"""),
        template=Template("""\
# $title

$as_of: DAY

## $overview

| $section | $planned | $actual | $difference |

(a row for each section)
$sections"""),
    ),
    "validation": Vocabulary(
        titles=words("Finance letter, Outlay memo"),
        as_of=words(
            "Position at",
        ),
        overviews=words(
            "At a glance",
        ),
        labels=(words("Chapter, Cost type, Entered, Remark, Allowance, Used, Balance"),),
        currencies=words("GBP, SEK"),
        states=words("draft, final, contested, guessed"),
        sections={
            "Transport": words("Diesel, Freight, Trailers, Pallets, Ferries, Drivers, Washing, Charging"),
            "Premises": words("Heating, Lighting, Fences, Doors, Plumbing, Gardening, Storage, Parking"),
            "People": words("Salaries, Recruiting, Travel, Interns, Coaching, Awards, Glasses, Childcare"),
            "Materials": words("Steel, Timber, Glue, Screws, Fabric, Glass, Copper, Varnish"),
        },
        rest=words("Bits and pieces, Leftovers"),
        all=words("Altogether, In sum"),
        style=Template("""\
# Notes for whoever writes a memo

* Follow the template's chapters from top to bottom, in the table "$overview" too; inside a chapter leave the lines
  as the export has them.
* Below a table's header (and its Markdown ruler) comes one line of units. It says $currency under each money column
  and is otherwise empty. Each table ends with a line named Total, the sums of its money columns.
* Print money as 12,345.60 and, if below zero, as -12,345.60. Two decimals throughout.
* $difference means $actual minus $planned, for totals as well.
* Print dates as 2024-03-27.
* Copy the headings from the template and add none; a chapter has a single table.

If the reader has another habit, the reader wins.
"""),
        template=Template("""\
# $title

$as_of: (date)

## $overview

| $section | $planned | $actual | $difference |

(each chapter once)
$sections"""),
    ),
    "heldout": Vocabulary(
        titles=words("Account of expenditure, Treasurer's paper, Half-year account"),
        as_of=words("Books closed, Reckoned to"),
        overviews=words("In brief, The whole picture"),
        labels=(
            words("Division, Matter, Recorded, Note, Estimate, Outcome, Variance"),
            words("Heading, Subject, Logged, Mark, Grant, Cost, Excess"),
        ),
        currencies=words("NOK, DKK, PLN"),
        states=words("provisional, confirmed, queried, pledged, waived"),
        sections={
            "Grounds": words("Seeds, Hedges, Paths, Benches, Drainage, Soil, Saplings, Mulch, Ponds"),
            "Workshops": words("Lathes, Vices, Aprons, Solder, Chisels, Clamps, Hinges, Jigs, Springs"),
            "Visitors": words("Leaflets, Tickets, Guides, Shuttles, Lockers, Maps, Umbrellas, Toilets, Ramps"),
            "Collections": words("Frames, Crates, Loans, Scanning, Varnishing, Shelves, Labels, Casts, Plinths"),
            "Offices": words("Desks, Chairs, Phones, Licences, Coffee, Stamps, Binders, Plants, Screens"),
        },
        rest=words("Odds and ends, Petty items, Remainder"),
        all=words("Grand sum, Taken together, Complete"),
        style=Template("""\
# Conventions for accounts

1. The template gives the headings and their sequence, which also holds for the rows under "$overview". The matters
   of one heading follow each other as they do in the data file.
2. Directly under the column names (and the ruler that Markdown wants) every table carries the units: $currency
   where there is money, an empty cell where there is none. Its final row, Total, sums the money.
3. Money: groups of three digits with commas, a decimal point, two places, and a hyphen before anything negative, as
   in -7,654.30.
4. $difference = $actual - $planned, row by row and for the sums.
5. Dates: 2024-03-27.
6. No headings of your own, and not more than one table below each.

A recipient's own customs override these conventions.
"""),
        template=Template("""\
# $title

$as_of: [date]

## $overview

| $section | $planned | $actual | $difference |

(one row per heading below)
$sections"""),
    ),
}

ROW_NOTES = {"train": "(a row for each item)", "validation": "(each line once)", "heldout": "(one row per matter)"}
"""What the template says below the table of a section."""

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Please write the report for {place} as of {day}. The data is in {file}.",
        "{place} waits for its report; {file} has the figures, and the day is {day}.",
        "Make the {day} report for {place} from {file}.",
        "We owe {place} a report on {file}, closed {day}.",
        "Turn {file} into the report that {place} gets, dated {day}.",
        "It is time for the report to {place}. Take {file} and {day} as its day.",
        "Can you do the report of {day} for {place}? All figures are in {file}.",
        "{file} came in today: write it up as a report for {place}, as of {day}.",
        "For {place}: a report over {file}, day {day}.",
    ),
    "validation": (
        "{place} gets a memo about {file}; date it {day}.",
        "Draw up the memo on {file} that goes to {place}, date {day}.",
        "There is new data, {file}. I want it as a memo to {place} ({day}).",
        "A memo for {place} is due, based on {file} and dated {day}.",
    ),
    "heldout": (
        "An account of {file} has to go out to {place}, reckoned to {day}.",
        "I promised {place} the account drawn from {file}. It closes on {day}.",
        "Compile what {file} holds into an account, closing {day}, addressed to {place}.",
        "Would you prepare the account for {place}? Source {file}, closing date {day}.",
        "{place} has asked for its account again: {file}, up to {day}.",
        "From {file}, prepare the {day} account that {place} is to receive.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Fill template.md by style.md and save it as report.md.",
        "It belongs in report.md and follows template.md; style.md says how we set things.",
        "Write report.md, with the headings and tables of template.md, in the manner of style.md.",
        "The template is template.md, our manner is in style.md, the result is report.md.",
        "Save report.md; template.md shows its form and style.md the details.",
    ),
    "validation": (
        "Name it report.md. The form is laid down in template.md, the details in style.md.",
        "I look for report.md, built on template.md with regard to style.md.",
    ),
    "heldout": (
        "Its skeleton is template.md, the conventions are those of style.md, the file to leave is report.md.",
        "Leave it as report.md, having read template.md for the skeleton and style.md for the conventions.",
        "Both template.md and style.md apply to it; call it report.md.",
    ),
}
