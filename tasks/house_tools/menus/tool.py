#!/usr/bin/env python3
"""Writes the menu of the day."""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any


def _menu(dishes: list[dict[str, str]], asked: argparse.Namespace) -> list[str]:
    if asked.omit:
        dishes = [dish for dish in dishes if dish["course"] != asked.omit]
    if asked.lead:
        dishes = sorted(dishes, key=lambda dish: dish["course"] != asked.lead)
    if asked.ceiling:
        dishes = [dish for dish in dishes if int(dish["price"]) <= asked.ceiling]
    if asked.mild:
        dishes = [dish for dish in dishes if int(dish["heat"]) <= asked.mild]
    if asked.rank:
        dishes = sorted(dishes, key=lambda dish: int(dish[asked.rank]))
    lines = []
    for dish in dishes:
        price = int(dish["price"]) + asked.extra
        shown = f"{asked.money} {price}" if asked.money else str(price)
        name = dish["dish"].title() if asked.title else dish["dish"]
        parts = [name, *([dish["course"]] if asked.course else []), shown]
        lines.append(f"{asked.bullet}{asked.gap.join(parts)}{'*' * int(dish['heat']) if asked.stars else ''}")
    return [asked.top, *lines] if asked.top else lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./menus", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add: Any = commands.add_parser("write", help="a line a dish", allow_abbrev=False).add_argument
    add("file", help="the dishes, a CSV file")
    add("--out", required=True, metavar="FILE", help="where the menu goes")
    add("--omit", metavar="COURSE", help="leave a course out")
    add("--lead", metavar="COURSE", help="a course before all others")
    add("--ceiling", metavar="PRICE", type=int, help="the highest price")
    add("--mild", metavar="HEAT", type=int, help="the greatest heat")
    add("--rank", metavar="COLUMN", help="go by this column of numbers")
    add("--extra", metavar="NUMBER", type=int, default=0, help="add to every price")
    add("--money", metavar="LETTERS", help="a currency before prices")
    add("--title", action="store_true", help="large first letters")
    add("--course", action="store_true", help="tell the course, too")
    add("--bullet", metavar="SIGN", default="", help="a sign before dishes")
    add("--gap", metavar="TEXT", default=" ", help="another gap than a space")
    add("--stars", action="store_true", help="a star for each degree of heat")
    add("--top", metavar="WORD", help="a heading")
    return parser


def main() -> int:
    """Runs the command; 2 with one line where it cannot."""
    asked = _parser().parse_args()
    try:
        with Path(asked.file).open(newline="") as file:
            dishes = list(csv.DictReader(file))
        lines = _menu(dishes, asked)
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
    sys.stderr.write(f"menus: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
