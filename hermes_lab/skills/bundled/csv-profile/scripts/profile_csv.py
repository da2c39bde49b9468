"""Prints a profile of a CSV file: its columns, and what is odd about it. Use: profile_csv.py FILE"""

import csv
import io
import sys
from collections import Counter

COLUMNS = ("column", "type", "missing", "distinct", "least", "most")


def is_number(text: str) -> bool:
    """Whether Python reads the text as a finite number."""
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False


def kind_of(values: list[str]) -> str:
    """The type of a column: an identifier such as 007 is text."""
    if not values:
        return "empty"
    if any(len(value.lstrip("+-")) > 1 and value.lstrip("+-")[0] == "0" and value.isdigit() for value in values):
        return "text"
    numbers = sum(map(is_number, values))
    return "number" if numbers == len(values) else f"text ({numbers} numbers)" if numbers else "text"


def profile(rows: list[list[str]]) -> tuple[list[tuple[str, ...]], list[str]]:
    """A line for each column of the rows, the first of which has their names, and the remarks on the rows."""
    if not rows:
        return [], ["the file is empty"]
    names, body = rows[0], rows[1:]
    lines: list[tuple[str, ...]] = []
    for at, name in enumerate(names):
        cells = [row[at].strip() if at < len(row) else "" for row in body]
        values = [cell for cell in cells if cell]
        kind = kind_of(values)
        order = sorted(sorted(values), key=float) if kind == "number" else sorted(values)
        ends = (order[0], order[-1]) if order else ("", "")
        lines.append((name, kind, str(len(cells) - len(values)), str(len(set(values))), *ends))
    odd = [number for number, row in enumerate(rows, 1) if len(row) != len(names)]
    twice = sum(count - 1 for count in Counter(map(tuple, body)).values())
    remarks = [f"{len(body)} rows, {len(names)} columns, {twice} duplicate rows"]
    if odd:
        remarks.append(f"{len(odd)} rows do not have {len(names)} cells: row {', '.join(map(str, odd[:10]))}")
    return lines, remarks


def main() -> None:
    """Reads the file and prints its profile."""
    with open(sys.argv[1], newline="", encoding="utf-8-sig", errors="replace") as file:
        text = file.read()
    header = text.partition("\n")[0]
    delimiter = max(",;\t|", key=header.count)
    lines, remarks = profile([row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row])
    table = [COLUMNS, *lines]
    widths = [max(len(row[at]) for row in table) for at in range(len(COLUMNS))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for remark in remarks:
        print(remark)


if __name__ == "__main__":
    main()
