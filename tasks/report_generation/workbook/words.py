"""The words of divisions' workbooks, the layouts and requests; none is shared between the splits."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from hermes_lab.tasks.report_generation._conventions import words
from hermes_lab.tasks.report_generation.workbook.rules import Source


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    tables: tuple[Source, ...]
    summaries: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """Of the columns: table, document, day, kind, count, amount."""
    units: tuple[str, ...]
    currencies: tuple[str, ...]
    kinds: tuple[str, ...]
    totals: tuple[str, ...]
    layout: Template


def _tables(text: str) -> tuple[Source, ...]:
    return tuple(Source(*words(line)) for line in text.strip().splitlines())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        tables=_tables("""
            fuel, Fuel slips
            tolls, Road tolls
            hotels, Hotel bills
            meals, Meals
            post, Postage
            tools, Small tools
            books, Books
            rent, Hall rent
        """),
        summaries=words("Summary, Overview"),
        labels=(
            words("Table, Document, Date, Kind, Rows, Amount"),
            words("Sheet, Receipt, Day, Type, Entries, Sum"),
            words("List, Voucher, Booked, Class, Lines, Value"),
        ),
        units=words("number, pieces"),
        currencies=words("EUR, USD, CHF"),
        kinds=words("sale, refund, gift, loan, fee, deposit"),
        totals=words("Sum, Overall, In all"),
        layout=Template("""\
# The layout of a workbook

The tables are CSV files in $folder. In the workbook the first sheet is $summary, then each table has a sheet whose
name is its title, in this order:

$list

- Row 1 of every sheet is the header, row 2 has the units, then come the rows, then a row that begins with Total.
- The sheet of a table has the columns $document, $day, $kind and $amount and the rows of the file as they are: the
  first three as text, $amount as a number. A missing $amount is an empty cell, and no part of any total.
- $summary has the columns $table, $count and $amount: for each table, in the order above, its title, how many rows
  it has and its total. The Total row adds both up.
- The unit of $amount is $currency, that of $count is $number; other columns have none, so the cell is empty.
- Every number under $amount has the format #,##0.00; $count has no special format. Formulas are not used.

xlsx.py in this folder writes such files; there is no other library. A division that wants it differently gets it
so.
"""),
    ),
    "validation": Vocabulary(
        tables=_tables("""
            diesel, Diesel
            freight, Freight notes
            wages, Day wages
            seeds, Seeds
            repairs, Repairs
        """),
        summaries=words(
            "Totals by table",
        ),
        labels=(words("Ledger, Slip, Posted, Nature, Items, Worth"),),
        units=words(
            "count",
        ),
        currencies=words("GBP, SEK"),
        kinds=words("purchase, return, bonus, grant"),
        totals=words("Altogether, In sum"),
        layout=Template("""\
# Workbooks: the usual set-up

Begin with the sheet "$summary". Continue with one sheet per CSV file of $folder, named after its title, keeping
this sequence:

$list

* All sheets start with a header (row 1) and a row of units (row 2); they close with a row whose first cell is
  Total.
* Sheets for files: columns $document, $day, $kind, $amount. Copy the file's rows in sequence. $amount is numeric,
  the others are text as found. Leave the cell empty where there is no $amount; it adds nothing.
* "$summary": columns $table, $count, $amount, giving title, number of rows and total of each file in sequence, and
  below the totals of both numeric columns.
* Units: $currency for $amount, $number for $count, nothing elsewhere.
* Money carries the number format #,##0.00, counts carry none. Write values, no formulas.

No spreadsheet library is installed, but xlsx.py is here to write the file. Divisions' own wishes take precedence.
"""),
    ),
    "heldout": Vocabulary(
        tables=_tables("""
            grain, Grain deliveries
            visits, Paid visits
            concerts, Concert takings
            leases, Leases
            herbs, Herb garden
            lamps, Lamps and wiring
            courses, Evening courses
        """),
        summaries=words("Digest, All accounts"),
        labels=(
            words("Account, Certificate, Issued, Sort, Records, Charge"),
            words("Register, Ticket, Recorded, Category, Positions, Price"),
        ),
        units=words("units, records"),
        currencies=words("NOK, DKK, PLN"),
        kinds=words("donation, penalty, advance, subsidy, credit"),
        totals=words("Grand sum, Taken together, Complete"),
        layout=Template("""\
# Specification of the spreadsheet

Sheets: $summary comes at the front, behind it one per file in $folder under the file's title, as enumerated:

$list

1. On each sheet, headers occupy row 1 and units row 2. Data follows; the last row, labelled Total in its first
   cell, closes the sheet.
2. Columns of the files' sheets: $document, $day, $kind, $amount. Transfer all records unaltered and in sequence,
   the amounts as numbers, everything else as text. A blank amount stays a blank cell and is ignored in sums.
3. Columns of $summary: $table, $count, $amount. Per file (sequence as enumerated) state title, number of records,
   total; Total sums them.
4. Units are $currency beneath $amount and $number beneath $count. Elsewhere the units row is blank.
5. Number format of amounts: #,##0.00. Counts are unformatted. Put plain values everywhere, not formulas.

For want of a library, use xlsx.py from this folder. What a division has demanded for itself outranks this
specification.
"""),
    ),
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Please put the tables of {year} in {folder} into a workbook for {place}.",
        "{place} needs its workbook for {year}, made from the tables in {folder}.",
        "Make the {year} workbook for {place}. The tables are in {folder}.",
        "The CSV files in {folder} are what {place} spent and took in {year}. Turn them into a workbook.",
        "Can you build a workbook for {place} from {folder}? The year is {year}.",
        "For {place}: the workbook of {year}, with the tables in {folder}.",
        "We close {year} for {place}, so its tables in {folder} have to go into a workbook.",
        "All tables of {year} have come in, see {folder}; {place} wants them as a workbook.",
        "I promised {place} a workbook of the {year} tables that are in {folder}.",
    ),
    "validation": (
        "{place} would like its {year} files from {folder} bundled as a spreadsheet.",
        "Bundle {folder} as a spreadsheet on behalf of {place}; it is the data of {year}.",
        "A spreadsheet is owed to {place}: files under {folder}, year {year}.",
        "Could the files under {folder} ({year}) become a spreadsheet for {place}?",
    ),
    "heldout": (
        "Assemble the accounts of {place} for {year} in one file of sheets; the records lie in {folder}.",
        "The auditors of {place} expect the {year} records ({folder}) assembled on sheets.",
        "{folder} keeps the {year} records of {place}. Assemble them on sheets.",
        "Whatever {folder} has for {year} must reach {place} on sheets, one file in all.",
        "It falls to you to assemble the {year} records under {folder} for {place}.",
        "{place} cannot read loose records: gather those of {year} in {folder} on sheets.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        "layout.md says how it is laid out; save it as book.xlsx.",
        "Save book.xlsx in the layout of layout.md.",
        "The result is book.xlsx, laid out as in layout.md.",
        "Write book.xlsx. What goes where is in layout.md.",
        "It is called book.xlsx and follows layout.md.",
    ),
    "validation": (
        "Set it up like layout.md explains, under the name book.xlsx.",
        "The set-up is explained in layout.md; I look for book.xlsx.",
    ),
    "heldout": (
        "Its specification is layout.md, its name book.xlsx.",
        "We specified everything in layout.md. Deliver book.xlsx.",
        "Heed layout.md, the specification, and deliver the file book.xlsx.",
    ),
}
