"""Writes .xlsx files with only the standard library.

    from xlsx import Cell, save
    save("book.xlsx", [("First sheet", [["Name", "Price"], ["Nails", Cell(2.5, "0.00")]])])

A sheet is a name and rows, a row is a list of cells, and a cell is None, a text, a number, or a Cell with a number
format and, if wanted, a formula (without "=", next to the value it has).
"""

import zipfile
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


class Cell(NamedTuple):
    """The value of a cell, with its format."""

    value: Any
    format: str = "General"
    formula: str = ""


def save(path: str, sheets: list[tuple[str, list[list[Any]]]]) -> None:
    """Writes the sheets to a file, in their order."""
    formats = ["General"]
    parts = {}
    for number, (_, rows) in enumerate(sheets, 1):
        parts[f"xl/worksheets/sheet{number}.xml"] = _sheet(rows, formats)
    parts["xl/styles.xml"] = _styles(formats)
    names = [f'<sheet name={quoteattr(name)} sheetId="{n}" r:id="rId{n}"/>' for n, (name, _) in enumerate(sheets, 1)]
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{"".join(names)}</sheets></workbook>'
    )
    targets = [("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    parts["xl/_rels/workbook.xml.rels"] = _relations([*targets, ("styles", "styles.xml")])
    parts["_rels/.rels"] = _relations([("officeDocument", "xl/workbook.xml")])
    parts["[Content_Types].xml"] = _types(len(sheets))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, DECLARATION + text)


def _sheet(rows: list[list[Any]], formats: list[str]) -> str:
    lines = []
    for number, row in enumerate(rows, 1):
        cells = [_cell(f"{_letters(n)}{number}", cell, formats) for n, cell in enumerate(row)]
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _cell(place: str, cell: Any, formats: list[str]) -> str:
    if not isinstance(cell, Cell):
        cell = Cell(cell)
    if cell.value is None or cell.value == "":
        return ""
    if cell.format not in formats:
        formats.append(cell.format)
    style = f' s="{formats.index(cell.format)}"' if cell.format != "General" else ""
    formula = f"<f>{escape(cell.formula)}</f>" if cell.formula else ""
    if isinstance(cell.value, str):
        return f'<c r="{place}"{style} t="inlineStr"><is><t xml:space="preserve">{escape(cell.value)}</t></is></c>'
    return f'<c r="{place}"{style}>{formula}<v>{cell.value}</v></c>'


def _letters(column: int) -> str:
    return (_letters(column // 26 - 1) if column > 25 else "") + chr(65 + column % 26)


def _styles(formats: list[str]) -> str:
    own = [f'<numFmt numFmtId="{163 + n}" formatCode={quoteattr(f)}/>' for n, f in enumerate(formats) if n]
    cells = [f'<xf numFmtId="{163 + n if n else 0}" applyNumberFormat="1"/>' for n in range(len(formats))]
    return (
        f'<styleSheet xmlns="{MAIN}">'
        + (f'<numFmts count="{len(own)}">{"".join(own)}</numFmts>' if own else "")
        + "<fonts><font/></fonts><fills><fill/></fills><borders><border/></borders>"
        f"<cellStyleXfs><xf/></cellStyleXfs><cellXfs>{''.join(cells)}</cellXfs></styleSheet>"
    )


def _relations(targets: list[tuple[str, str]]) -> str:
    lines = [
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    ]
    return f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(lines)}</Relationships>'


def _types(count: int) -> str:
    kinds = [("workbook", "sheet.main"), ("styles", "styles")]
    kinds += [(f"worksheets/sheet{n}", "worksheet") for n in range(1, count + 1)]
    lines = [f'<Override PartName="/xl/{part}.xml" ContentType="{TYPE}.{kind}+xml"/>' for part, kind in kinds]
    return (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{"".join(lines)}</Types>'
    )
