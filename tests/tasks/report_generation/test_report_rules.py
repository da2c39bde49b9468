"""The four families: every custom makes a difference of its own, and whoever follows it is right."""

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.report_generation.figures.rules import CONVENTIONS as FIGURES
from hermes_lab.tasks.report_generation.house_template.rules import CONVENTIONS as TEMPLATES
from hermes_lab.tasks.report_generation.house_template.rules import Custom as Style
from hermes_lab.tasks.report_generation.restatement.data import right_rows
from hermes_lab.tasks.report_generation.restatement.rules import CONVENTIONS as RESTATEMENTS
from hermes_lab.tasks.report_generation.restatement.rules import Custom, Entry, Figure
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import SPLITS, WorldSpec

OpenSandbox = Callable[[], Sandbox]
FAMILIES = ("figures", "house_template", "restatement", "workbook")


def suite_of(family: str) -> WorldSuite:
    return WorldSuite(family, (load_family(family),), WorldSpec())


def module_of(family: str) -> Any:
    return importlib.import_module(f"hermes_lab.tasks.report_generation.{family}")


def all_rules(family: str, site_config: object) -> Iterator[Rule]:
    """Every custom that a place of that shape could have, with all literals."""
    for name, convention in module_of(family).CONVENTIONS.items():
        for literals in convention.variants(site_config):
            paraphrases = tuple(paraphrase.format(**literals) for paraphrase in convention.texts.paraphrases)
            yield Rule(name, paraphrases, convention.texts.instruction.format(**literals), tuple(literals.items()))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_customs_want_the_same_report(family: str) -> None:
    suite, right_of = suite_of(family), module_of(family).FAMILY.right_of
    for split in SPLITS:
        for world in range(8):
            for task in suite.load(split=split, count=2, seed=1, world=world):
                subtask = subtasks_of(task.truth)[0]
                rules = list(all_rules(family, subtask.site.site_config))
                wanted = [repr(right_of(subtask.instance, rule)) for rule in (None, *rules)]
                assert len(set(wanted)) == len(wanted)
                assert len({rule.instruction for rule in rules}) == len(rules)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_clause_tells_its_custom_alone(family: str) -> None:
    suite = suite_of(family)
    for split in SPLITS:
        for world in range(8):
            for site in suite.sites(split=split, world=world):
                rules = list(all_rules(family, site.site_config))
                for rule in rules:
                    for paraphrase in rule.paraphrases:
                        assert [each.instruction for each in rules if each.stated_in(paraphrase)] == [rule.instruction]


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_only_who_follows_a_custom_is_right(open_sandbox: OpenSandbox, family: str) -> None:
    """One custom of each type, over what followers of the others have left."""
    suite = suite_of(family)
    task = suite.load(split="heldout", count=1, seed=2, world=2)[0]
    subtask = subtasks_of(task.truth)[0]
    rules = list({rule.type: rule for rule in all_rules(family, subtask.site.site_config)}.values())
    judge = subtask.site.family.judge
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        for follower in (None, *rules):
            (result,) = await play(subtask.solve(follower), task, sandbox)
            assert '"exit_code": 0' in result.content
            for rule in (None, *rules):
                criteria = await judge(subtask.instance, rule, sandbox, "Done.")
                assert all(each.score == 1.0 for each in criteria) == (rule is follower)
                assert all(each.score == 1.0 for each in criteria if not each.ruled)
                assert all(each.reason for each in criteria if each.score < 1.0)


CASES = {
    "plain": (Style(), -123450, "-1,234.50"),
    "negative": (TEMPLATES["negative"].apply({"form": "({})"}), -123450, "(1,234.50)"),
    "group": (TEMPLATES["group"].apply({"by": "'"}), 1234567890, "12'345'678.90"),
    "half up": (TEMPLATES["places"].apply({"places": 0}), 250, "3"),
    "half up below zero": (TEMPLATES["places"].apply({"places": 1}), -125, "-1.3"),
    "thousands": (TEMPLATES["thousands"].apply({"form": "k{}"}), 123_456_789, "1,234.57"),
    "zero": (TEMPLATES["zero"].apply({"zero": "nil"}), 0, "nil"),
    "plain zero": (Style(), 0, "0.00"),
}


@pytest.mark.parametrize("case", CASES)
def test_money_is_printed_as_worked_out_by_hand(case: str) -> None:
    style, hundredths, text = CASES[case]
    assert style.money(hundredths) == text


TWICE = Figure("Rent", "2024-Q1", (Entry(1000, "", 0), Entry(1200, "error", 1), Entry(1100, "policy", 2)))
DASHED = Figure("Rent", "2024-Q2", (Entry(1000, "", 0), Entry(1004, "error", 1), Entry(None, "error", 3)))
STANDING = {
    "plain": ({}, ("1100", "+100"), ("1004", "+4")),
    "threshold": ({"limit": 5}, ("1100", "+100"), ("1000", "0")),
    "reason": ({"word": "policy"}, ("1200", "+200"), ("1004", "+4")),
    "age": ({"quarters": 1}, ("1200", "+200"), ("1004", "+4")),
    "pick": ({"words": "the first restatement"}, ("1200", "+200"), ("1004", "+4")),
    "mark": ({"form": "{}r"}, ("1100r", "+100"), ("1004r", "+4")),
    "share": ({"words": "percent of the first figure with one decimal"}, ("1100", "+10.0%"), ("1004", "+0.4%")),
    "unit": ({"words": "millions with three decimals"}, ("1.100", "+0.100"), ("1.004", "+0.004")),
    "withdrawn": ({"word": "void"}, ("1100", "+100"), ("void", "void")),
}


@pytest.mark.parametrize("case", STANDING)
def test_figures_stand_as_worked_out_by_hand(case: str) -> None:
    literals, twice, dashed = STANDING[case]
    custom = RESTATEMENTS[case].apply(literals) if literals else Custom()
    task = suite_of("restatement").load(split="train", count=1, seed=0, world=0)[0]
    site_config = replace(subtasks_of(task.truth)[0].site.site_config, lines=("Rent",))
    assert [row[3:] for row in right_rows(site_config, (TWICE, DASHED), custom).rows] == [twice, dashed]


def test_a_hash_is_that_of_the_file() -> None:
    """As `printf 'abc' | sha256sum` has it."""
    module = module_of("figures")
    task = suite_of("figures").load(split="train", count=1, seed=0, world=0)[0]
    table = subtasks_of(task.truth)[0].instance.tables[0]._replace(text="abc")
    assert module.digits_of(table, module.Custom()) == "ba7816bf8f01"
    assert module.digits_of(table, FIGURES["cut"].apply({"which": "the last 12"})) == "b410ff61f20015ad"[4:]
    assert module.digits_of(table, FIGURES["algorithm"].apply({"code": "md5"})) == "900150983cd2"


OTHER_HANDS: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    "house_template": {
        "report.md": lambda text: text.replace(b"| Total |", b"| **Total** |").replace(b"| |", b"| &nbsp; |")
    },
    "restatement": {
        "standing.csv": lambda text: b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"),
        "changes.md": lambda text: re.sub(rb"(?m)^(\w+): (.+)$", rb"**\1:** \2.", text),
    },
}


@pytest.mark.anyio
@pytest.mark.parametrize("family", OTHER_HANDS)
async def test_what_other_hands_and_programs_add_is_no_fault(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    task = next(task for task in suite.load(split="train", count=40, seed=3, world=3) if not task.triggers)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(suite.oracle(task), task, sandbox)
        for output, change in OTHER_HANDS[family].items():
            whole = await sandbox.read(output)
            assert change(whole) != whole
            await sandbox.write(output, change(whole))
        assert (await suite.verify(task, sandbox, "Done.")).score == 1.0


NEAR_MISSES: dict[str, Callable[[bytes], bytes]] = {
    "house_template": lambda text: text.replace(b" |\n| ", b"1 |\n| ", 5),
    "figures": lambda text: text.replace(b'data-label="', b'data-label="0', 1),
    "restatement": lambda text: text.replace(b"+", b"+1", 1),
    "workbook": lambda data: data[: len(data) // 2],
}


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_report_with_one_thing_wrong_is_wrong(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    task = next(task for task in suite.load(split="train", count=40, seed=3, world=3) if task.triggers)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(suite.oracle(task), task, sandbox)
        assert (await suite.verify(task, sandbox, "Done.")).score == 1.0
        output = subtasks_of(task.truth)[0].instance.outputs[0]
        whole = await sandbox.read(output)
        assert NEAR_MISSES[family](whole) != whole
        await sandbox.write(output, NEAR_MISSES[family](whole))
        verdict = await suite.verify(task, sandbox, "Done.")
    assert verdict.score == 0.0
    assert verdict.reasons
