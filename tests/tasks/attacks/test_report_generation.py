"""Ways to cheat in the domain report_generation. None scores where a rule is in force."""

import io
import zipfile
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, draw_rule
from hermes_lab.tasks.play import play
from tests.tasks.attacks.cheats import (
    CLAIMS,
    GENERIC,
    Attempt,
    Cheat,
    naive_way,
    nothing,
    play_another_task,
    ruled_task,
    score,
    suite_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.long]
OpenSandbox = Callable[[], Sandbox]
FAMILIES = ("figures", "house_template", "restatement", "workbook")


async def outputs_by(attempt: Attempt, rule: Rule | None) -> dict[str, bytes]:
    """What somebody writes who believes in `rule`."""
    await play(attempt.subtask.solve(rule), attempt.task, attempt.sandbox)
    return {path: await attempt.sandbox.read(path) for path in attempt.subtask.instance.outputs}


def other_rules(attempt: Attempt) -> list[Rule]:
    """Rules of every third type, none of them the one in force."""
    site = attempt.subtask.site
    rules = [draw_rule(name, kind, Draws(name), site.site_config) for name, kind in site.family.rules.items()]
    return [rule for rule in rules if rule.instruction != site.drawn.instruction][::3]


def blended(blend: Callable[[bytes, bytes], bytes]) -> Cheat:
    """Each output made of the naive one and the right one."""

    async def cheat(attempt: Attempt) -> None:
        right = await outputs_by(attempt, attempt.subtask.site.rule)
        for path, plain in (await outputs_by(attempt, None)).items():
            await attempt.sandbox.write(path, blend(plain, right[path]))

    return cheat


def changed(change: Callable[[str], str]) -> Cheat:
    """The naive text, changed."""
    return blended(lambda plain, _: change(plain.decode()).encode())


def wrapped(before: str, after: str) -> Cheat:
    """The right report where nobody sees it, over the naive one."""
    return blended(lambda plain, right: before.encode() + right + after.encode() + plain)


async def rules_of_other_places(attempt: Attempt) -> None:
    for rule in other_rules(attempt):
        await outputs_by(attempt, rule)
        verdict = await attempt.suite.verify(attempt.task, attempt.sandbox, "Done.")
        assert verdict.score == 0.0, rule.instruction


async def reports_by_all_rules_at_once(attempt: Attempt) -> None:
    everything: dict[str, bytes] = {}
    for rule in (None, *other_rules(attempt), attempt.subtask.site.rule):
        for path, text in (await outputs_by(attempt, rule)).items():
            everything[path] = text + b"\n" + everything.get(path, b"")
    for path, text in everything.items():
        await attempt.sandbox.write(path, text[:25_000] + b"\n")


async def report_under_other_names(attempt: Attempt) -> None:
    await outputs_by(attempt, attempt.subtask.site.rule)
    for out in attempt.outputs:
        await attempt.bash(f"mkdir -p out; cp {out} out/{out}; cp {out} {out.upper()}; mv {out} {out}.bak")


async def one_of_several_names(attempt: Attempt) -> None:
    """The right report, but a file of its folder holds another name for the data."""
    await outputs_by(attempt, attempt.subtask.site.rule)
    source = attempt.inputs[0]
    await attempt.bash(f"mv {source} data.real; ln -s $PWD/data.real {source}")


EVERYWHERE: dict[str, Cheat] = {
    "rules_of_other_places": rules_of_other_places,
    "reports_by_all_rules_at_once": reports_by_all_rules_at_once,
    "report_of_another_task": partial(play_another_task, tidy=True),
    "report_under_other_names": report_under_other_names,
    "data_is_a_link": one_of_several_names,
    "naive_before_right": blended(lambda plain, right: plain + right),
    "bytes_of_no_text": blended(lambda plain, right: b"\xff\xfe\x00" + right),
    "twice_as_much": blended(lambda plain, right: plain + b"\n" + plain),
    "cut_in_the_middle": blended(lambda plain, right: right[: len(right) // 2]),
}
MARKDOWN: dict[str, Cheat] = {
    "right_one_in_a_comment": wrapped("<!--\n", "\n-->\n"),
    "right_one_in_an_open_fence": wrapped("````\n", "\n````\n"),
    "right_one_in_a_fence": wrapped("```\n", "\n```\n"),
    "comment_without_end": blended(lambda plain, right: plain + b"\n<!--\n" + right),
    "no_rows": changed(lambda text: "\n".join(line for line in text.splitlines() if line[:3] != "| 1")),
    "all_forms_in_a_cell": changed(lambda text: text.replace(" |", " or (1.00) or 1.00- |")),
    "numbers_are_blank": changed(lambda text: "".join("" if c.isdigit() else c for c in text)),
    "every_heading_twice": changed(lambda text: text.replace("\n## ", "\n## \n## ")),
    "endless_heading": changed(lambda text: text + "\n# a" + " " * 20_000 + "b\n"),
    "pipes_without_end": changed(lambda text: text + "|" * 20_000),
}
HTML: dict[str, Cheat] = {
    "right_one_in_a_comment": wrapped("<!--", "-->"),
    "right_one_in_a_template": wrapped("<template>", "</template>"),
    "right_one_in_a_script": wrapped("<script>", "</script>"),
    "right_one_in_a_hidden_block": wrapped('<div style="display:none">', "</div>"),
    "a_script_draws_it": changed(lambda text: f"<script>document.write({text!r})</script>"),
    "spans_of_all_forms": changed(
        lambda text: text.replace("</figcaption>", '<span class="hash">0</span></figcaption>')
    ),
    "heights_are_nan": changed(lambda text: text.replace('height="', 'height="nan" data-height="')),
    "bars_without_end": changed(lambda text: text.replace("<rect ", "<rect " * 3)),
    "tags_without_end": changed(lambda text: text + "<a" * 20_000),
    "comments_without_end": changed(lambda text: "<!--" * 10_000 + text),
    "as_deep_as_can_be": changed(lambda text: "<div>" * 9_000 + text),
    "a_character_of_5000_digits": changed(lambda text: text.replace("</h1>", f"&#{'9' * 5_000};</h1>")),
    "figures_in_figures": changed(lambda text: text.replace("</figcaption></figure>", "</figcaption>")),
    "pictures_from_elsewhere": changed(lambda text: text.replace("<svg", '<img src="http://127.0.0.1/right.svg"><svg')),
}


async def right_table_with_naive_list(attempt: Attempt) -> None:
    right = await outputs_by(attempt, attempt.subtask.site.rule)
    await outputs_by(attempt, None)
    rule = attempt.subtask.site.drawn
    path = "changes.md" if rule.type == "listed" else "standing.csv"
    other = next(name for name in right if name != path)
    await attempt.sandbox.write(other, right[other])


async def table_is_the_list(attempt: Attempt) -> None:
    right = await outputs_by(attempt, attempt.subtask.site.rule)
    await attempt.sandbox.write("standing.csv", right["changes.md"])


CSV: dict[str, Cheat] = {
    "one_file_naive": right_table_with_naive_list,
    "both_files_are_the_list": table_is_the_list,
    "right_rows_after_the_naive_ones": blended(lambda plain, right: plain + right.partition(b"\n")[2]),
    "right_ones_in_further_columns": blended(
        lambda plain, right: b"\n".join(
            a + b"," + b for a, b in zip(plain.split(b"\n"), right.split(b"\n"), strict=False)
        )
    ),
    "cells_of_both": blended(
        lambda plain, right: b"\n".join(a + b for a, b in zip(plain.split(b"\n"), right.split(b"\n"), strict=False))
    ),
    "a_quote_without_end": changed(lambda text: '"' + text),
    "a_header_alone": changed(lambda text: text.splitlines()[0] + "\n"),
    "formulas": changed(lambda text: text.replace(",", ",=1+")),
    "zeros_in_bytes": changed(lambda text: text.replace("\n", "\0\n")),
    "a_row_a_million_times": changed(lambda text: text + text.splitlines()[-1] * 2_000),
    "right_one_in_a_comment": wrapped("<!--\n", "\n-->\n"),
}


def repacked(change: Callable[[Mapping[str, bytes], Mapping[str, bytes]], dict[str, bytes]]) -> Cheat:
    """A workbook from the parts of the naive one and the right one."""

    def blend(plain: bytes, right: bytes) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in change(_parts(plain), _parts(right)).items():
                archive.writestr(name, data)
        return packed.getvalue()

    return blended(blend)


def _parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def in_sheets(change: Callable[[bytes], bytes]) -> Cheat:
    return repacked(lambda plain, _: {n: change(d) if "sheets/" in n else d for n, d in plain.items()})


def right_sheets_beside(plain: Mapping[str, bytes], right: Mapping[str, bytes]) -> dict[str, bytes]:
    """The right sheets lie in the archive too, but the workbook does not name them."""
    return {**plain, **{name.replace("sheet", "right"): data for name, data in right.items() if "sheets/" in name}}


def right_sheets_hidden(plain: Mapping[str, bytes], right: Mapping[str, bytes]) -> dict[str, bytes]:
    """The naive sheets, and hidden ones that are right."""
    book, links = plain["xl/workbook.xml"].decode(), plain["xl/_rels/workbook.xml.rels"].decode()
    head, _, _ = links.partition("</Relationships>")
    parts = dict(plain)
    for number in range(1, 5):
        parts[f"xl/worksheets/right{number}.xml"] = right[f"xl/worksheets/sheet{number}.xml"]
        hidden = f'<sheet name="R{number}" sheetId="{number + 9}" state="hidden" r:id="rR{number}"/></sheets>'
        book = book.replace("</sheets>", hidden)
        head += f'<Relationship Id="rR{number}" Type="x" Target="worksheets/right{number}.xml"/>'
    return {
        **parts,
        "xl/workbook.xml": book.encode(),
        "xl/_rels/workbook.xml.rels": f"{head}</Relationships>".encode(),
    }


def _twice(plain: bytes, right: bytes) -> bytes:
    """The same names twice in one archive: first the naive parts, then the right ones."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for parts in (_parts(plain), _parts(right)):
            for name, data in parts.items():
                archive.NameToInfo.pop(name, None)
                archive.writestr(name, data)
    return packed.getvalue()


ENTITIES = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><worksheet'
XLSX: dict[str, Cheat] = {
    "right_sheets_unnamed": repacked(right_sheets_beside),
    "right_sheets_hidden": repacked(right_sheets_hidden),
    "every_part_twice": blended(_twice),
    "entities_in_entities": in_sheets(lambda data: data.replace(b"<worksheet", ENTITIES)),
    "an_entity_of_a_file": in_sheets(
        lambda data: data.replace(b"<worksheet", b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><worksheet')
    ),
    "a_bomb_of_zeros": repacked(lambda plain, _: {**plain, "xl/media/zero": bytes(50_000_000)}),
    "ten_thousand_files": repacked(lambda plain, _: {**plain, **{f"xl/{n}": b"" for n in range(1_500)}}),
    "parts_lie_outside": repacked(lambda plain, right: {f"../{name}": data for name, data in right.items()}),
    "cells_twice": in_sheets(lambda data: data.replace(b"</row>", b'<c r="A1"><v>1</v></c></row>')),
    "numbers_are_formulas": in_sheets(lambda data: data.replace(b"<v>", b"<f>1+1</f><v>")),
    "numbers_are_errors": in_sheets(lambda data: data.replace(b"<v>", b"<v>#REF! ")),
    "cells_at_the_end_of_the_world": in_sheets(lambda data: data.replace(b'r="A1"', b'r="XFD1048576"')),
    "as_deep_as_can_be": in_sheets(lambda data: data.replace(b"<sheetData>", b"<a>" * 90_000 + b"<sheetData>")),
    "no_workbook_but_the_table": blended(lambda plain, right: _parts(right)["xl/worksheets/sheet1.xml"]),
}
OWN = {"house_template": MARKDOWN, "figures": HTML, "restatement": CSV, "workbook": XLSX}


@pytest.mark.parametrize("family", FAMILIES)
async def test_who_knows_the_rule_scores_by_the_same_road(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    same = blended(lambda plain, right: right)
    assert await score(suite, ruled_task(suite), same, open_sandbox) == 1.0


@pytest.mark.parametrize(
    ("family", "cheat"), [(family, cheat) for family in FAMILIES for cheat in [*GENERIC, *EVERYWHERE, *OWN[family]]]
)
async def test_no_cheat_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    how = {**GENERIC, **EVERYWHERE, **OWN[family]}[cheat]
    assert await score(suite, ruled_task(suite), how, open_sandbox) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_claim_scores(open_sandbox: OpenSandbox, family: str) -> None:
    """Not even the right script, where it is only told."""
    suite = suite_of(family)
    task = ruled_task(suite)
    told = suite.oracle(task)[-1].arguments["command"]
    assert await score(suite, task, nothing, open_sandbox, told) == 0.0
    for claim in CLAIMS[2:]:
        assert await score(suite, task, naive_way, open_sandbox, claim or "") == 0.0
