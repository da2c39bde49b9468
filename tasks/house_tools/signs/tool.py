#!/usr/bin/env python3
"""Makes the signs of an exhibition."""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any


def _signs(works: list[dict[str, str]], asked: argparse.Namespace) -> list[str]:
    if asked.hide:
        works = [work for work in works if work["kind"] != asked.hide]
    if asked.after:
        works = [work for work in works if int(work["year"]) > asked.after]
    if asked.until:
        works = [work for work in works if int(work["year"]) <= asked.until]
    if asked.walk:
        key = asked.walk
        works = sorted(works, key=lambda work: work[key] if key == "title" else int(work[key]))
    lines = []
    for work in works:
        title = f'"{work["title"]}"' if asked.quotes else work["title"]
        maker = work["maker"].upper() if asked.loud else work["maker"]
        text = title if asked.anonymous else f"{title} by {maker}"
        if asked.rooms:
            text = f"{work['room']} {text}"
        if asked.years:
            text += f" ({work['year']})"
        if asked.lender:
            text += f", {asked.lender}"
        lines += [text] * asked.twin
    if asked.first:
        lines = [f"{number}. {line}" for number, line in enumerate(lines, asked.first)]
    return [asked.over, *lines] if asked.over else lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./signs", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add: Any = commands.add_parser("make", help="a sign a work", allow_abbrev=False).add_argument
    add("file", help="the works, a CSV file")
    add("--out", required=True, metavar="FILE", help="where the signs go, a line each")
    add("--hide", metavar="KIND", help="no signs for this kind")
    add("--after", metavar="YEAR", type=int, help="works after this year")
    add("--until", metavar="YEAR", type=int, help="works up to this year")
    add("--walk", metavar="COLUMN", help="go by this column")
    add("--quotes", action="store_true", help="titles in quotation marks")
    add("--years", action="store_true", help="add the years")
    add("--rooms", action="store_true", help="the rooms first")
    add("--loud", action="store_true", help="makers in capitals")
    add("--anonymous", action="store_true", help="titles alone")
    add("--lender", metavar="WORD", help="a lender, at the end of signs")
    add("--twin", metavar="NUMBER", type=int, default=1, help="each sign so often")
    add("--from", metavar="NUMBER", dest="first", type=int, help="number them from this on")
    add("--over", metavar="WORD", help="a heading")
    return parser


def main() -> int:
    """Runs the command; 2 with one line where it cannot."""
    asked = _parser().parse_args()
    try:
        with Path(asked.file).open(newline="") as file:
            works = list(csv.DictReader(file))
        lines = _signs(works, asked)
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
    sys.stderr.write(f"signs: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
