"""Reads the cells of workbooks, with number formats and formulas. Does not evaluate formulas.

Rejects archives that are too large when unpacked, are encrypted, contain a file twice or have leading bytes, and XML
with a document type, so that entities are never declared or expanded.
"""

import io
import lzma
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

LARGEST = 2_000_000
"""Limit of bytes of all files in the archive, unpacked."""
MOST_FILES, MOST_SHEETS, LAST_ROW, LAST_COLUMN = 100, 20, 1_000, 50

_BUILT_IN = {0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 14: "mm-dd-yy"}
_REFERENCE = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    ElementTree.ParseError,
    NotImplementedError,
    ArithmeticError,
    RuntimeError,
    OSError,
    EOFError,
    ValueError,
    LookupError,
)


class Cell(NamedTuple):
    """A cell; the value of an empty one is None."""

    value: str | float | None = None
    format: str = "General"
    formula: str = ""


class Sheet(NamedTuple):
    """A sheet, from the first row and column on; rows end with their last non-empty cell."""

    name: str
    rows: tuple[tuple[Cell, ...], ...]


def read_workbook(data: bytes) -> tuple[Sheet, ...] | None:
    """The sheets in order; None if the data is not a valid workbook."""
    try:
        parts = _unpack(data)
        shared = (
            [_text(item) for item in _parse(parts["xl/sharedStrings.xml"])] if "xl/sharedStrings.xml" in parts else []
        )
        formats = _formats(_parse(parts["xl/styles.xml"])) if "xl/styles.xml" in parts else ["General"]
        return tuple(Sheet(name, _rows(_parse(parts[path]), shared, formats)) for name, path in _sheets(parts))
    except _BROKEN:
        return None


def _unpack(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [info for info in archive.infolist() if not info.is_dir()]
        names = {info.filename for info in files}
        if len(files) > MOST_FILES or len(names) < len(files) or sum(info.file_size for info in files) > LARGEST:
            raise ValueError("too large")
        if min(info.header_offset for info in files):
            raise ValueError("leading bytes before the archive")
        parts = {}
        for info in files:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("unsupported compression")
            with archive.open(info) as file:
                # The sizes in the archive's directory may be wrong.
                parts[info.filename] = file.read(LARGEST + 1)
            if len(parts[info.filename]) != info.file_size:
                raise ValueError("wrong size in the archive's directory")
        return parts


def _parse(data: bytes) -> ElementTree.Element:
    text = data.decode("utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("a document type")
    return ElementTree.fromstring(text)


def _sheets(parts: dict[str, bytes]) -> list[tuple[str, str]]:
    """The name and file of each sheet."""
    targets = {}
    for relation in _parse(parts["xl/_rels/workbook.xml.rels"]):
        targets[relation.attrib["Id"]] = posixpath.normpath(posixpath.join("/xl", relation.attrib["Target"]))[1:]
    found = []
    for sheet in _parse(parts["xl/workbook.xml"]).iterfind("{*}sheets/{*}sheet"):
        (key,) = [value for name, value in sheet.attrib.items() if name.endswith("}id")]
        found.append((sheet.attrib["name"], targets[key]))
    if len(found) > MOST_SHEETS:
        raise ValueError("too many sheets")
    return found


def _formats(styles: ElementTree.Element) -> list[str]:
    """The number format of each cell style."""
    own = {int(each.attrib["numFmtId"]): each.attrib["formatCode"] for each in styles.iterfind("{*}numFmts/{*}numFmt")}
    known = {**_BUILT_IN, **own}
    numbers = [int(each.get("numFmtId", "0")) for each in styles.iterfind("{*}cellXfs/{*}xf")]
    return [known.get(number, f"built-in {number}") for number in numbers] or ["General"]


def _rows(sheet: ElementTree.Element, shared: list[str], formats: list[str]) -> tuple[tuple[Cell, ...], ...]:
    cells: dict[tuple[int, int], Cell] = {}
    for row, column, element in _positions(sheet):
        if (row, column) in cells or row > LAST_ROW or column > LAST_COLUMN:
            raise ValueError("a duplicate cell, or one that is too far away")
        cells[row, column] = _cell(element, shared, formats)
    cells = {site: cell for site, cell in cells.items() if cell.value is not None or cell.formula}
    height = max((row for row, _ in cells), default=0)
    widths = [0] * (height + 1)
    for row, column in cells:
        widths[row] = max(widths[row], column)
    return tuple(
        tuple(cells.get((row, column), Cell()) for column in range(1, widths[row] + 1)) for row in range(1, height + 1)
    )


def _positions(sheet: ElementTree.Element) -> Iterator[tuple[int, int, ElementTree.Element]]:
    """Every cell with its row and column, from 1. Adjacent cells may omit their references."""
    row = 0
    for line in sheet.iterfind("{*}sheetData/{*}row"):
        row = int(line.get("r", row + 1))
        column = 0
        for cell in line.iterfind("{*}c"):
            column += 1
            if "r" in cell.attrib:
                match = _REFERENCE.fullmatch(cell.attrib["r"])
                if not match or int(match[2]) != row:
                    raise ValueError("no reference")
                column = 0
                for letter in match[1]:
                    column = 26 * column + ord(letter) - 64
            yield row, column, cell


def _cell(element: ElementTree.Element, shared: list[str], formats: list[str]) -> Cell:
    kind, number = element.get("t", "n"), element.findtext("{*}v")
    formula = (element.findtext("{*}f") or "").removeprefix("=").replace(" ", "").replace("$", "")
    style = int(element.get("s", "0"))
    if style < 0:
        raise ValueError("no style")
    form = formats[style]
    if kind == "inlineStr":
        inline = element.find("{*}is")
        return Cell((_text(inline) if inline is not None else "") or None, form, formula)
    if not number:
        return Cell(None, form, formula)
    if kind == "s":
        index = int(number)
        if index < 0:
            raise ValueError("no text")
        return Cell(shared[index] or None, form, formula)
    if kind in ("str", "d", "e", "b"):
        return Cell(number, form, formula)
    return Cell(float(number), form, formula)


def _text(item: ElementTree.Element) -> str:
    """The text of a plain or rich string."""
    runs = [item.find("{*}t"), *item.iterfind("{*}r/{*}t")]
    return "".join(run.text or "" for run in runs if run is not None)
