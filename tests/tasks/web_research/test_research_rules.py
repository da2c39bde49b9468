"""Rules of research: each makes a difference on every scene, and means what its words say, by the pages alone."""

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity, Rule, draw_rule
from hermes_lab.tasks.names import NAMES
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.web_research._claims import Question, Research
from hermes_lab.types import Page

FAMILIES = ("notices", "registers", "aliases", "errata")
SPLITS = ("train", "validation", "heldout")


def family_of(name: str) -> Research[Any, Any]:
    family = load_family(name)
    assert isinstance(family, Research)
    return family


def instances(name: str, split: str, count: int = 6) -> Iterator[tuple[Any, Any, dict[str, Rule]]]:
    """Scenes with their shape, and every rule that could be drawn there, by recipe."""
    family = family_of(name)
    for number in range(count):
        entity = Entity(*NAMES[split][number], split)
        draws = Draws(name, split, number)
        site_config = family.site_config(entity, "", draws)
        instance = family.instance(entity, site_config, draws)
        drawn = [draw_rule(kind, each, draws, site_config) for kind, each in family.rules.items() for _ in range(8)]
        yield instance, site_config, {rule.instruction: rule for rule in drawn}


def rule_of(rules: dict[str, Rule], kind: str) -> list[Rule]:
    return [rule for rule in rules.values() if rule.type == kind]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_two_beliefs_give_the_same_answer(name: str, split: str) -> None:
    family = family_of(name)
    for instance, _, rules in instances(name, split):
        found = [family.find(instance, rule) for rule in (None, *rules.values())]
        assert len({(each.value, tuple((cite.url, cite.quote) for cite in each.cites)) for each in found}) == len(found)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_clause_tells_its_rule_alone(name: str, split: str) -> None:
    for _, _, rules in instances(name, split, 4):
        for rule in rules.values():
            for paraphrase in rule.paraphrases:
                assert [each.instruction for each in rules.values() if each.stated_in(paraphrase)] == [rule.instruction]


@pytest.mark.parametrize("split", SPLITS)
def test_a_request_for_a_cell_names_the_table(split: str) -> None:
    assert all(
        re.search(r"\b(table|tabulate[sd])\b", request) for request in family_of("errata").prompt["requests"][split]
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_nobody_searches_twice(name: str) -> None:
    for instance, _, _ in instances(name, "train", 2):
        actions = (*family_of(name).explore(instance), *family_of(name).solve(instance, None))
        assert len({str((action.tool, action.arguments)) for action in actions}) == len(actions)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_rules_enough(name: str) -> None:
    rules = family_of(name).rules
    assert len(rules) >= 8
    assert 2 <= sum(rule.unseen for rule in rules.values()) <= 4
    assert all(len(rule.paraphrases) >= 3 for rule in rules.values())


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_quote_is_one_line_of_a_page_that_can_be_reached(name: str, split: str) -> None:
    family = family_of(name)
    for instance, _, rules in instances(name, split):
        assert 15 <= len(instance.pages) <= 60
        assert len({page.url for page in instance.pages}) == len(instance.pages)
        texts = {page.url: page for page in instance.pages}
        reachable = {page.url for page in instance.pages if page.listed}
        for _ in range(8):
            linked = re.findall(r"\]\((\S+)\)", "\n".join(texts[url].text for url in reachable))
            reachable |= {url for url in linked if url in texts}
        for rule in (None, *rules.values()):
            for cite in family.find(instance, rule).cites:
                assert cite.source.line in texts[cite.source.url].text.splitlines()
                assert cite.source.needle in cite.source.line
                assert cite.source.url in reachable


@pytest.mark.parametrize("name", FAMILIES)
def test_the_value_of_the_obvious_way_stands_in_its_quotes_or_adds_up_from_them(name: str) -> None:
    family = family_of(name)
    for instance, _, _ in instances(name, "train"):
        found = family.find(instance, None)
        if name != "registers":
            assert found.value in found.cites[0].quote


def _newest_by(pages: list[Page], label: str) -> list[Page]:
    def day(page: Page) -> datetime:
        found = re.search(rf"^{label}: (.+)$", page.text, re.MULTILINE)
        assert found
        return datetime.strptime(found[1], "%d %B %Y")

    return sorted(pages, key=day, reverse=True)


def _about(instance: Question, subject: str) -> list[Page]:
    return [page for page in instance.pages if f"sets the {subject} at" in page.text]


def test_notices_are_chosen_by_what_their_pages_say() -> None:
    family = family_of("notices")
    for instance, site_config, rules in instances("notices", "train"):
        words = site_config.words
        subject = re.search(r"sets the (.+) at", family.find(instance, None).cites[0].quote)[1]  # type: ignore[index]
        labels = (words.published, words.effective, words.registered)
        by_day = {label: _newest_by(_about(instance, subject), label) for label in labels}
        published = by_day[words.published]
        assert len(published) == 10

        def cited(rule: Rule | None) -> list[str]:
            return [cite.source.url for cite in family.find(instance, rule).cites]  # noqa: B023

        assert cited(None) == [published[0].url]
        for rule in rules.values():
            if rule.type == "newest_by":
                assert cited(rule) == [by_day[rule["label"]][0].url]
            if rule.type == "office":
                assert cited(rule) == [next(p.url for p in published if f": {rule['office']}\n" in p.text)]
            if rule.type == "without":
                assert cited(rule) == [next(p.url for p in published if f": {rule['channel']}\n" not in p.text)]
            if rule.type == "behind":
                assert cited(rule) == [published[rule["number"]].url]
            if rule.type == "oldest":
                assert cited(rule) == [published[-1].url]
            if rule.type == "mean":
                assert cited(rule) == [page.url for page in published[: rule["number"]]]


def _rows(pages: list[Page]) -> list[list[str]]:
    lines = [line for page in pages for line in page.text.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_registers_add_up_from_their_pages_link_by_link() -> None:
    family = family_of("registers")
    for instance, _, rules in instances("registers", "train"):
        pages = {page.url: page for page in instance.pages}
        url = next(cite.source.url for cite in family.find(instance, None).cites)
        sheets: list[Page] = []
        annexes: dict[str, str] = {}
        while url:
            page = pages[url]
            annexes |= dict(re.findall(r"See also: \[(.+)\]\((.+)\)", page.text))
            moved = re.search(r"\[another address\]\((.+)\)", page.text)
            onward = re.search(r"Next page: \[.+\]\((.+)\)", page.text)
            sheets += [] if moved else [page]
            url = (moved or onward or ["", ""])[1]
        rows = _rows(sheets)

        def total(rows: list[list[str]]) -> str:
            return str(sum(int(row[5]) for row in rows))

        assert family.find(instance, None).value == total(rows)
        assert not sheets[-1].listed
        for rule in rules.values():
            found = family.find(instance, rule)
            if rule.type == "drop":
                assert found.value == total([row for row in rows if row[3] != rule["status"]])
            if rule.type == "only":
                assert found.value == total([row for row in rows if row[2] == rule["kind"]])
            if rule.type == "once":
                ordered = rows if rule["which"] == "last" else rows[::-1]
                assert found.value == total(list({row[1]: row for row in ordered}.values()))
            if rule.type == "annex":
                assert found.value == total(rows + _rows([pages[annexes[rule["annex"]]]]))
            if rule.type == "since":
                assert found.value == total([row for row in rows if int(row[4]) >= rule["year"]])
            if rule.type == "cap":
                assert found.value == str(sum(min(int(row[5]), rule["most"]) for row in rows))
            if rule.type == "cover":
                assert found.cites[0].quote.endswith(f"as of {rule['date']}.")


def test_aliases_are_found_by_the_links_of_their_articles() -> None:
    family = family_of("aliases")
    for instance, _, rules in instances("aliases", "train"):
        pages = {page.url: page for page in instance.pages}

        def capital(page: Page) -> int:
            return int(re.search(r"share capital of (\d+)", page.text)[1])  # type: ignore[index]

        def follow(label: str, page: Page) -> Page:
            found = re.search(rf"^{label}: \[.+\]\((.+)\)$", page.text, re.M)
            return pages[found[1]] if found else page  # noqa: B023

        asked = pages[family.find(instance, None).cites[0].url]
        for rule in rules.values():
            value = family.find(instance, rule).value
            if rule.type in ("earlier", "later"):
                page = asked
                for _ in range(rule["number"]):
                    page = follow("Earlier name" if rule.type == "earlier" else "Later name", page)
                assert value == str(capital(page))
            if rule.type == "in_year":
                page = asked
                while True:
                    begin, end = map(int, re.search(r"from (\d+) to (\d+)", page.text).groups())  # type: ignore[union-attr]
                    if begin <= rule["year"] <= end:
                        break
                    page = follow("Earlier name", page)
                assert value == str(capital(page))
            if rule.type == "role":
                assert value == str(capital(follow(rule["role"], asked)))
            if rule.type == "branch":
                assert value == str(capital(follow(f"Branch in {rule['seat']}", asked)))
            if rule.type == "together":
                assert value == str(capital(asked) + capital(follow(rule["role"], asked)))
            if rule.type == "less":
                assert value == str(capital(asked) - capital(follow(f"Branch in {rule['seat']}", asked)))


def test_errata_are_read_off_the_pages_that_the_rule_names() -> None:
    family = family_of("errata")
    for instance, site_config, rules in instances("errata", "train"):
        page = next(page for page in instance.pages if page.url == family.find(instance, None).cites[0].url)
        column = 1 + site_config.areas.index(instance.area)
        numbers = {int(row[0]): [int(cell.removesuffix(" [a]")) for cell in row[1:]] for row in _rows([page])}
        here = numbers[instance.year][column - 1]
        assert family.find(instance, None).value == str(here)
        for rule in rules.values():
            found = family.find(instance, rule)
            if rule.type == "footnote":
                assert f"a recount has given {found.value} here." in page.text
            if rule.type in ("sheet", "edition", "release"):
                (name,) = [str(value) for _, value in rule.literals]
                (source,) = [each for each in instance.pages if each.url == found.cites[0].url]
                assert name in source.title
                assert found.value in found.cites[0].quote
            if rule.type == "index":
                index = Decimal(100 * here) / numbers[rule["year"]][column - 1]
                assert abs(Decimal(found.value) - index) <= Decimal("0.05")
            if rule.type == "change":
                assert found.value == str(here - numbers[instance.year - rule["number"]][column - 1])
            if rule.type == "share":
                share = Decimal(100 * here) / sum(numbers[instance.year])
                assert abs(Decimal(found.value) - share) <= Decimal("0.05")


def test_forms_write_what_their_recipes_say() -> None:
    family = family_of("notices")
    for instance, _, rules in instances("notices", "train", 2):
        plain = family.find(instance, None)
        for rule in rules.values():
            found = family.find(instance, rule)
            cite = found.cites[0]
            if rule.type == "grouped":
                mark = {"a point": ".", "a space": " ", "an apostrophe": "'", "an underscore": "_"}[rule["separator"]]
                assert found.value == f"{plain.value[0]}{mark}{plain.value[1:4]},{plain.value[5:]}"
            if rule.type == "prefix":
                assert found.value == f"{rule['mark']} {plain.value}"
            if rule.type == "rounded":
                assert abs(Decimal(found.value) - Decimal(plain.value)) <= Decimal(rule["step"]) / 2
                assert Decimal(found.value) % rule["step"] == 0
            if rule.type == "cited":
                assert cite.url == f"{rule['word']} {plain.cites[0].url}"
            if rule.type == "dated":
                assert re.fullmatch(r"\S+ \([\d./]+\)", cite.url)
            if rule.type == "marks":
                assert cite.quote == f"{rule['before']}{plain.cites[0].quote}{rule['after']}"
