"""The family `registers`: the sum of the fees in a register of several pages; the client decides which count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.rules import Behavior, load_conventions
from hermes_lab.tasks.web_research._claims import Claim, Question, Research, Selections, Source
from hermes_lab.tasks.web_research._forms import forms
from hermes_lab.tasks.web_research._site import FIGURES, Published, draw_day, draw_publisher, draw_some
from hermes_lab.types import Page

_YEARS = range(2008, 2024)
"""A register lacks at most one of them, so that rules with different years give different sums."""


@dataclass(frozen=True)
class SiteConfig(Published):
    """A publisher of registers."""

    classes: tuple[str, ...]
    statuses: tuple[str, ...]
    annexes: tuple[str, ...]


class Entry(NamedTuple):
    """A row of a register. `sheet` is the index of its page; annexes come after the other pages."""

    number: int
    holder: str
    kind: str
    status: str
    year: int
    fee: int
    sheet: int

    @property
    def row(self) -> str:
        """The row on its page."""
        return f"| {self.number} | {self.holder} | {self.kind} | {self.status} | {self.year} | {self.fee} |"


class Sheet(NamedTuple):
    """A page with rows; `annex` is the name of an annex, empty for other pages."""

    url: str
    changed: date
    annex: str = ""


@dataclass(frozen=True, kw_only=True)
class Sum(Question):
    """A question for the sum of a register."""

    entries: tuple[Entry, ...]
    sheets: tuple[Sheet, ...]
    covers: Mapping[str, tuple[int, Source]]
    """The totals on the cover page, by date."""

    @property
    def listed(self) -> list[Entry]:
        """The entries outside annexes."""
        return [entry for entry in self.entries if not self.sheets[entry.sheet].annex]


def _total(instance: Sum, entries: Sequence[Entry], fee: Callable[[Entry], int] = lambda entry: entry.fee) -> Claim:
    """The sum of the fees; the sources are the first of the entries on each page."""
    first = {entry.sheet: entry for entry in reversed(entries)}
    sources = tuple(
        Source(instance.sheets[sheet].url, entry.row, f"| {entry.number} |", instance.sheets[sheet].changed)
        for sheet, entry in sorted(first.items())
    )
    return Claim(Decimal(sum(map(fee, entries))), 0, sources)


def _where(holds: Callable[[Entry, Mapping[str, Any]], bool]) -> Callable[[Sum, Mapping[str, Any]], Claim]:
    return lambda instance, rule: _total(instance, [entry for entry in instance.listed if holds(entry, rule)])


def _once(instance: Sum, rule: Mapping[str, Any]) -> Claim:
    entries = instance.listed if rule["which"] == "last" else instance.listed[::-1]
    kept = {entry.holder: entry for entry in entries}
    return _total(instance, [entry for entry in instance.listed if kept[entry.holder] is entry])


def _with_annex(instance: Sum, rule: Mapping[str, Any]) -> Claim:
    return _total(
        instance, [entry for entry in instance.entries if instance.sheets[entry.sheet].annex in ("", rule["annex"])]
    )


def _cover(instance: Sum, rule: Mapping[str, Any]) -> Claim:
    total, source = instance.covers[rule["date"]]
    return Claim(Decimal(total), 0, (source,))


SELECTIONS: Selections = load_conventions(
    __file__,
    {
        "drop": Behavior(_where(lambda entry, rule: entry.status != rule["status"])),
        "only": Behavior(_where(lambda entry, rule: entry.kind == rule["kind"])),
        "once": Behavior(_once),
        "annex": Behavior(_with_annex),
        "since": Behavior(_where(lambda entry, rule: entry.year >= rule["year"])),
        "cap": Behavior(
            lambda instance, rule: _total(instance, instance.listed, lambda entry: min(entry.fee, rule["most"]))
        ),
        "cover": Behavior(_cover, lambda site_config: [{"date": date} for date in site_config.words.dates]),
    },
)


class Registers(Research[SiteConfig, Sum]):
    """Sums over registers. Every register has all statuses, classes, repeated names and years that rules are about."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """A town, with the classes and statuses of its registers."""
        words = self.words[entity.split]
        return SiteConfig(
            draw_publisher(entity, draws, "register"),
            words,
            tuple(draws.sample(words.classes, 3)),
            tuple(draws.sample(words.statuses, 3)),
            tuple(draws.sample(words.annexes, 3)),
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Sum:
        """A register of three to five pages and three annexes, and two short registers about something else."""
        publisher, words = site_config.publisher, site_config.words
        subject, *others = draws.sample(words.registers, 3)
        count = draws.integer(3, 5)
        slug = subject.replace(" ", "-")
        urls = [publisher.url(f"{slug}?page={number}") for number in range(1, count)]
        moved = publisher.url(f"{slug}/{draws.integer(10_000, 99_999)}")
        urls += [moved, *(publisher.url(f"{slug}/annex-{letter}") for letter in "abc")]
        sheets = tuple(
            Sheet(url, draw_day(draws, 2024, 2024), site_config.annexes[index - count] if index >= count else "")
            for index, url in enumerate(urls)
        )
        entries = _draw_entries(site_config, count, draws)
        pages = _sheets(site_config, subject, sheets, entries, count)
        lost = publisher.url(f"{slug}?page={count}")
        title = f"{subject[0].upper()}{subject[1:]}, {words.page.format(number=count, count=count)}"
        pages.append(publisher.page(f"{slug}?page={count}", title, [words.moved.format(url=moved)], sheets[0].changed))
        cover, covers = _cover_page(site_config, subject, slug, entries, urls[0], draws)
        for other in others:
            pages += _other(site_config, other, draws)
        return Sum(
            request=self.ask(entity, draws, subject=subject, town=publisher.town),
            pages=(*draws.shuffled([*pages, cover]), *(each.page for each in publisher.standing)),
            query=f"register of {subject} {publisher.town}",
            reads=((cover.url,), *((url,) for url in urls[: count - 1]), (lost,), (moved,)),
            entries=entries,
            sheets=sheets,
            covers=covers,
        )

    def plain(self, instance: Sum) -> Claim:
        """All entries outside annexes."""
        return _total(instance, instance.listed)


def _draw_entries(site_config: SiteConfig, count: int, draws: Draws) -> tuple[Entry, ...]:
    """The entries of `count` pages, then those of three annexes, in page order."""
    rows = [draws.integer(5, 7) for _ in range(count)]
    total, extra = sum(rows), 3 * len(site_config.annexes)
    words = site_config.words
    names = draws.sample([f"{first} {last}" for first in words.first for last in words.last], total - 4 + extra)
    # The holders of the first four entries have one more entry each.
    holders = names[: total - 4]
    holders = [*holders[:4], *draws.shuffled([*holders[4:], *holders[:4]])]
    kinds = draws.shuffled([site_config.classes[n % 3] for n in range(total)])
    statuses = draws.shuffled([site_config.statuses[n % 3] for n in range(total)])
    years = draws.shuffled([_YEARS[n * 5 % len(_YEARS)] for n in range(total)])
    fees = draw_some(draws, FIGURES, total + extra)
    first = draws.integer(1000, 8000)
    sheet_of = [sheet for sheet, length in enumerate(rows) for _ in range(length)]
    entries = [
        Entry(first + n, holders[n], kinds[n], statuses[n], years[n], fees[n], sheet_of[n]) for n in range(total)
    ]
    for n in range(extra):
        entries.append(
            Entry(
                number=first + total + n,
                holder=names[total - 4 + n],
                kind=draws.choice(site_config.classes),
                status=draws.choice(site_config.statuses),
                year=draws.choice(_YEARS),
                fee=fees[total + n],
                sheet=count + n // 3,
            )
        )
    return tuple(entries)


def _sheets(
    site_config: SiteConfig, subject: str, sheets: Sequence[Sheet], entries: Sequence[Entry], count: int
) -> list[Page]:
    publisher, words = site_config.publisher, site_config.words
    slug, base = subject.replace(" ", "-"), f"{publisher.base}/"
    head = _head(words)
    pages = []
    for index, sheet in enumerate(sheets):
        rows = [entry.row for entry in entries if entry.sheet == index]
        title = sheet.annex or words.page.format(number=index + 1, count=count)
        links = []
        if index + 1 < count:
            url = publisher.url(f"{slug}?page={index + 2}")
            links.append(words.onward.format(number=index + 2, url=url))
        if index == 0:
            links += [words.annex.format(name=each.annex, url=each.url) for each in sheets[count:]]
        lines = [*head, *rows, *([""] if links else []), *links]
        title = f"{subject[0].upper()}{subject[1:]}, {title}"
        listed = index < count - 1
        pages.append(publisher.page(sheet.url.removeprefix(base), title, lines, sheet.changed, listed=listed))
    return pages


def _head(words: Words) -> list[str]:
    return [f"| {' | '.join(words.columns)} |", "|" + " --- |" * len(words.columns)]


def _cover_page(
    site_config: SiteConfig, subject: str, slug: str, entries: Sequence[Entry], first: str, draws: Draws
) -> tuple[Page, dict[str, tuple[int, Source]]]:
    """The cover of a register. Its totals, of earlier dates, differ from the sum of the pages."""
    publisher, words = site_config.publisher, site_config.words
    total = sum(entry.fee for entry in entries)
    totals = [total + draws.integer(101, 499), total + draws.integer(501, 999)]
    changed = draw_day(draws, 2023, 2023)
    lines = [words.cover.format(date=day, total=each) for day, each in zip(words.dates, totals, strict=True)]
    onward = words.onward.format(number=1, url=first)
    page = publisher.page(f"{slug}", words.title.format(subject=subject), [words.foreword, *lines, onward], changed)
    covers = {
        day: (each, Source(page.url, line, str(each), changed))
        for day, each, line in zip(words.dates, totals, lines, strict=True)
    }
    return page, covers


def _other(site_config: SiteConfig, subject: str, draws: Draws) -> list[Page]:
    """The cover and two pages of another register."""
    publisher, words = site_config.publisher, site_config.words
    slug, changed = subject.replace(" ", "-"), draw_day(draws, 2022, 2024)
    onward = words.onward.format(number=1, url=publisher.url(f"{slug}?page=1"))
    pages = [publisher.page(slug, words.title.format(subject=subject), [words.foreword, onward], changed)]
    number = draws.integer(1000, 8000)
    for sheet in (1, 2):
        rows = [
            Entry(
                number=number + 5 * sheet + n,
                holder=f"{draws.choice(words.first)} {draws.choice(words.last)}",
                kind=draws.choice(site_config.classes),
                status=draws.choice(site_config.statuses),
                year=draws.choice(_YEARS),
                fee=draws.choice(FIGURES),
                sheet=0,
            ).row
            for n in range(3)
        ]
        links = [words.onward.format(number=2, url=publisher.url(f"{slug}?page=2"))] if sheet == 1 else []
        title = f"{subject[0].upper()}{subject[1:]}, {words.page.format(number=sheet, count=2)}"
        pages.append(
            publisher.page(
                f"{slug}?page={sheet}", title, [*_head(words), *rows, *([""] if links else []), *links], changed
            )
        )
    return pages


FAMILY = Registers(__file__, SELECTIONS, forms("divided", "padded", "prefix", "also", "fragment"))
