"""How reports are read: what counts, what does not, and what is refused."""

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.tasks.report_generation._html import LONGEST, read_html
from hermes_lab.tasks.report_generation._markdown import read_parts, share_right
from hermes_lab.tasks.report_generation._xlsx import Cell, read_workbook
from hermes_lab.tasks.report_generation.workbook import writer

REPORT = """\
# Costs #

As of: 2024-03-31
<!-- ## Hidden -->

## 1\\. Cars

| Item | Sum |
| :--- | --: |
|  | EUR |
| Oil \\* | -3 |
| a \\| b | |

```
## Fenced
```
##No heading
"""


def test_markdown_is_read_as_headings_lines_and_tables() -> None:
    _, costs, cars = read_parts(REPORT)
    assert (costs.level, costs.title, costs.lines) == (1, "Costs", ["As of: 2024-03-31"])
    assert (cars.level, cars.title, cars.lines) == (2, "1. Cars", ["##No heading"])
    assert cars.tables == [[("Item", "Sum"), ("", "EUR"), ("Oil *", "-3"), ("a | b", "")]]


def test_markdown_is_read_whatever_its_emphasis() -> None:
    """Marks behind a name, escaped and lone ones and those inside a word stay."""
    (part,) = read_parts(
        "**As of:** 2024-03-31\n\n__Restated: 3 of 24__\n\n"
        "| **Total** | &nbsp; | Oil * | \\*\\*a** | 12_345__6__7 | [!] ** |\n"
    )
    assert part.lines == ["As of: 2024-03-31", "Restated: 3 of 24"]
    assert part.tables == [[("Total", "", "Oil *", "**a**", "12_345__6__7", "[!] **")]]


def test_a_line_between_parts_a_table_in_two() -> None:
    assert [len(table) for table in read_parts("| a |\n| b |\n\n| c |\n")[0].tables] == [2, 1]


@given(st.text(alphabet="#|-`<!> \\\nab:~*_", max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert read_parts(text)[0].level == 0


def test_rows_count_where_they_stand() -> None:
    assert share_right([("a",), ("b",)], [("a",), ("c",), ("b",)]) == (1 / 3, "1 of 3 rows are right")
    assert share_right([("a",), ("b",)], [("a",)])[0] == 0.5
    assert share_right([], [])[0] == 1.0


def test_html_is_read_as_a_tree() -> None:
    page = read_html(
        '<!DOCTYPE html><p id="a" ID=b>One &amp; <b>two</b><br>three<!-- four --></p>'
        '<script>five</script><img alt="a>b"/>'
    )
    assert page is not None
    (paragraph,) = page.find("p")
    assert (paragraph.attributes, paragraph.text) == ({"id": "a"}, "One & two three")
    assert [each.attributes for each in page.find("img")] == [{"alt": "a>b"}]
    assert "five" not in page.text


@pytest.mark.parametrize(
    "text",
    [
        "<a",
        "<p>a<b",
        "<!-- a",
        "<p title='>",
        "<>",
        "</",
        "<div>" * 80,
        "<br>" * 6_000,
        "a" * (LONGEST + 1),
        f"&#{'9' * 5_000};",
    ],
    ids=range(10),
)
def test_html_without_an_end_or_measure_is_refused(text: str) -> None:
    assert read_html(text) is None


def test_a_written_workbook_is_read_again(tmp_path) -> None:
    rows = [["A & B", None, 2], [None, writer.Cell(-1.5, '0.00;"<"', "SUM(B1:B1)")]]
    writer.save(str(tmp_path / "book.xlsx"), [("One", rows), ("Zwei ü", [])])
    one, two = read_workbook((tmp_path / "book.xlsx").read_bytes()) or ()
    assert (one.name, two) == ("One", ("Zwei ü", ()))
    assert one.rows == (
        (Cell("A & B"), Cell(), Cell(2.0)),
        (Cell(), Cell(-1.5, '0.00;"<"', "SUM(B1:B1)")),
    )


LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BOOK = {
    "xl/workbook.xml": f'<w xmlns:r="{LINK}"><sheets><sheet name="S" r:id="a"/></sheets></w>',
    "xl/_rels/workbook.xml.rels": '<r><x Id="a" Target="/xl/s.xml"/></r>',
    "xl/sharedStrings.xml": "<s><si><t>plain</t></si><si><r><t>in </t></r><r><t>runs</t></r></si></s>",
    "xl/styles.xml": '<s><cellXfs><xf numFmtId="0"/><xf numFmtId="4"/></cellXfs></s>',
}


def packed(sheet: str, compression: int = zipfile.ZIP_DEFLATED, **more: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, text in {**BOOK, "xl/s.xml": f"<w><sheetData>{sheet}</sheetData></w>", **more}.items():
            archive.writestr(name, text)
    return file.getvalue()


def test_workbooks_of_other_programs_are_read() -> None:
    """Shared strings, built-in formats, references left out, gaps, formulas with their signs."""
    (sheet,) = read_workbook(
        packed(
            '<row><c t="s"><v>0</v></c><c s="1"><f>=SUM( $A$1 )</f><v>2.50</v></c></row>'
            '<row r="3"><c r="B3" t="s"><v>1</v></c><c r="C3" s="1"/></row>'
        )
    ) or (None,)
    assert sheet is not None
    assert sheet.rows == (
        (Cell("plain"), Cell(2.5, "#,##0.00", "SUM(A1)")),
        (),
        (Cell(), Cell("in runs")),
    )


ROW = "<row><c><v>1</v></c></row>"
REFUSED = {
    "nothing": b"",
    "no archive": b"PK\x03\x04 but no more",
    "bytes before it": b"\0" + packed(ROW),
    "another archive before it": packed(ROW) + packed(ROW),
    "half of it": packed(ROW)[:-200],
    "no workbook in it": packed(ROW, **{"xl/workbook.xml": "<w/>", "xl/_rels/workbook.xml.rels": "<r"}),
    "an unusual compression": packed(ROW, zipfile.ZIP_LZMA),
    "a document type": packed(ROW, **{"xl/styles.xml": '<!DOCTYPE a [<!ENTITY b "c">]><s>&b;</s>'}),
    "too much": packed(ROW, **{"xl/zero": "0" * 3_000_000}),
    "too many": packed(ROW, **{f"xl/{n}": "" for n in range(200)}),
    "a cell twice": packed('<row r="1"><c r="A1"><v>1</v></c><c r="A1"><v>2</v></c></row>'),
    "a cell in another row": packed('<row r="1"><c r="A2"><v>1</v></c></row>'),
    "a cell far away": packed('<row r="1"><c r="ZZZ1"><v>1</v></c></row>'),
    "no reference": packed('<row r="1"><c r="1A"><v>1</v></c></row>'),
    "no such string": packed('<row><c t="s"><v>9</v></c></row>'),
    "no such style": packed('<row><c s="-1"><v>9</v></c></row>'),
    "no number": packed("<row><c><v>one</v></c></row>"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_sound_workbook_is_refused(what: str) -> None:
    assert read_workbook(packed(ROW)) is not None
    assert read_workbook(REFUSED[what]) is None


@given(st.binary(max_size=200), st.integers(0, 2_000))
def test_a_damaged_workbook_breaks_nothing(noise: bytes, site: int) -> None:
    whole = packed(ROW)
    damaged = whole[:site] + noise + whole[site + len(noise) :]
    assert read_workbook(damaged) is None or len(read_workbook(damaged) or ()) <= 1
