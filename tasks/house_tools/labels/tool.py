#!/usr/bin/env python3
"""Prints labels for parcels."""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any


def _labels(rows: list[dict[str, str]], asked: argparse.Namespace) -> list[str]:
    if asked.only:
        rows = [row for row in rows if row["kind"] == asked.only]
    if asked.skip:
        rows = [row for row in rows if row["kind"] != asked.skip]
    if asked.heavy:
        rows = [row for row in rows if int(row["kilos"]) >= asked.heavy]
    if asked.light:
        rows = [row for row in rows if int(row["kilos"]) < asked.light]
    if asked.sort:
        rows = sorted(rows, key=lambda row: row[asked.sort])
    if asked.reverse:
        rows = rows[::-1]
    lines = []
    for row in rows:
        name = row["name"].upper() if asked.caps else row["name"]
        code = f"{asked.country}-{row['code']}" if asked.country else row["code"]
        parts = [name, row["street"], f"{code} {row['town']}"]
        if asked.weight:
            parts.append(f"{row['kilos']} kg")
        lines += [asked.join.join(parts)] * asked.copies
    if asked.number:
        lines = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
    lines = [f"{asked.mark} {line}" if asked.mark else line for line in lines]
    return [*lines, asked.last] if asked.last else lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./labels", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add: Any = commands.add_parser("print", help="a label for each parcel", allow_abbrev=False).add_argument
    add("file", help="the parcels, a CSV file")
    add("--out", required=True, metavar="FILE", help="where the labels go, a line each")
    add("--only", metavar="KIND", help="labels for this kind alone")
    add("--skip", metavar="KIND", help="no labels for this kind")
    add("--heavy", metavar="KILOS", type=int, help="labels from this weight on")
    add("--light", metavar="KILOS", type=int, help="labels below this weight")
    add("--sort", metavar="COLUMN", help="labels in the order of this column")
    add("--reverse", action="store_true", help="the last parcel first")
    add("--caps", action="store_true", help="names in capitals")
    add("--country", metavar="LETTERS", help="put this and a hyphen before each code")
    add("--weight", action="store_true", help="add the weight to each label")
    add("--join", metavar="TEXT", default=", ", help="a separator other than comma and space")
    add("--copies", metavar="NUMBER", type=int, default=1, help="print each label so often")
    add("--number", action="store_true", help="number the labels")
    add("--mark", metavar="WORD", help="begin each label with this word")
    add("--last", metavar="WORD", help="end the labels with a line of this word")
    return parser


def main() -> int:
    """Runs the command; 2 with one line where it cannot."""
    asked = _parser().parse_args()
    try:
        with Path(asked.file).open(newline="") as file:
            rows = list(csv.DictReader(file))
        lines = _labels(rows, asked)
        Path(asked.out).write_text("".join(f"{line}\n" for line in lines))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    except KeyError as error:
        return _fail(f"{asked.file} has no column {error}")
    except ValueError as error:
        return _fail(f"{asked.file}: {error}")
    sys.stdout.write(f"{asked.out}: {len(lines)} lines\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"labels: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
