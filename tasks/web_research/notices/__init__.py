"""The family `notices`: many notices have set the same fee; the client decides which counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.rules import Behavior, load_conventions
from hermes_lab.tasks.web_research._claims import Claim, Question, Research, Selections, Source
from hermes_lab.tasks.web_research._forms import forms
from hermes_lab.tasks.web_research._site import FIGURES, Published, draw_day, draw_publisher, draw_some
from hermes_lab.types import Page

_COUNT = 10
_CENT = Decimal("0.01")


@dataclass(frozen=True)
class SiteConfig(Published):
    """A publisher of notices. The newest notices of a fee are from the first office and channel."""

    offices: tuple[str, ...]
    channels: tuple[str, ...]


class Notice(NamedTuple):
    """One notice; `days` are those of publication, effect and registration."""

    number: str
    amount: Decimal
    office: str
    channel: str
    days: tuple[date, date, date]
    source: Source


@dataclass(frozen=True, kw_only=True)
class Fee(Question):
    """A question for a fee. The notices are ordered by publication, newest first."""

    notices: tuple[Notice, ...]


def _of(notice: Notice) -> Claim:
    return Claim(notice.amount, 2, (notice.source,))


def _first(instance: Fee, name: str, value: str, *, same: bool) -> Claim:
    return _of(next(notice for notice in instance.notices if (getattr(notice, name) == value) == same))


def _mean(instance: Fee, rule: Mapping[str, Any]) -> Claim:
    chosen = instance.notices[: rule["number"]]
    mean = sum((notice.amount for notice in chosen), Decimal(0)) / len(chosen)
    return Claim(mean.quantize(_CENT, ROUND_HALF_UP), 2, tuple(notice.source for notice in chosen))


SELECTIONS: Selections = load_conventions(
    __file__,
    {
        "newest_by": Behavior(
            lambda instance, rule: _of(max(instance.notices, key=lambda notice: notice.days[rule["which"]])),
            lambda site_config: [
                {"label": site_config.words.effective, "which": 1},
                {"label": site_config.words.registered, "which": 2},
            ],
        ),
        "office": Behavior(
            lambda instance, rule: _first(instance, "office", rule["office"], same=True),
            lambda site_config: [{"office": office} for office in site_config.offices[1:]],
        ),
        "without": Behavior(
            lambda instance, rule: _first(instance, "channel", rule["channel"], same=False),
            draw=lambda draws, site_config: {"channel": site_config.channels[0]},
        ),
        "behind": Behavior(lambda instance, rule: _of(instance.notices[rule["number"]])),
        "oldest": Behavior(lambda instance, rule: _of(instance.notices[-1])),
        "mean": Behavior(_mean),
    },
)


class Notices(Research[SiteConfig, Fee]):
    """Notices that replace each other. Every rule picks a different one than the newest."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """A town, with the offices and channels of its notices."""
        words = self.words[entity.split]
        publisher = draw_publisher(entity, draws, "notices")
        return SiteConfig(
            publisher, words, tuple(draws.sample(words.offices, 4)), tuple(draws.sample(words.channels, 3))
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Fee:
        """Ten notices about the fee, and four about each of three other fees."""
        publisher, words = site_config.publisher, site_config.words
        subject, *others = draws.sample(words.subjects, 4)
        numbers = iter(draw_some(draws, range(100, 999), _COUNT + 4 * len(others)))
        notices, pages = _draw_notices(site_config, subject, numbers, draws)
        for other in others:
            pages += _draw_others(site_config, other, numbers, draws)
        withdrawn = Page(
            url=publisher.url(f"{words.notice.lower()}/2012-{draws.integer(10, 99)}"),
            title=f"{words.notice}: {subject} | {publisher.town}",
            text=f"{words.withdrawn}\n",
            status=410,
        )
        links = [f"- [{page.title.partition(' | ')[0]}]({page.url})" for page in draws.shuffled([*pages, withdrawn])]
        index = publisher.page("list", words.contents.format(town=publisher.town), links, draw_day(draws, 2025, 2025))
        return Fee(
            request=self.ask(entity, draws, subject=subject, town=publisher.town),
            pages=(*draws.shuffled([*pages, withdrawn, index]), *(each.page for each in publisher.standing)),
            query=f"{subject} {publisher.town} {words.notice.lower()}",
            reads=(tuple(draws.shuffled([notice.source.url for notice in notices])),),
            notices=notices,
        )

    def plain(self, instance: Fee) -> Claim:
        """The newest notice."""
        return _of(instance.notices[0])


def _draw_notices(
    site_config: SiteConfig, subject: str, numbers: Any, draws: Draws
) -> tuple[tuple[Notice, ...], list[Page]]:
    """The notices about the fee in question, newest first.

    Each rule picks a different one: 0 is the newest, 1 and 2 are for `behind`, 3 for `without`, 4 to 6 for `office`, 7
    and 8 for `newest_by`, and 9 is the oldest.
    """
    offices = (
        *[site_config.offices[0]] * 4,
        *draws.shuffled(site_config.offices[1:]),
        *draws.shuffled(site_config.offices[1:]),
    )
    channels = (
        *[site_config.channels[0]] * 3,
        site_config.channels[1],
        *(draws.choice(site_config.channels) for _ in range(6)),
    )
    amounts = draw_some(draws, FIGURES, _COUNT)
    published = date(2025, 3, 1) - timedelta(draws.integer(1, 200))
    late = published + timedelta(draws.integer(250, 300))
    notices, pages = [], []
    for index in range(_COUNT):
        effective = late if index == 7 else published + timedelta(draws.integer(20, 60))
        registered = late if index == 8 else published + timedelta(draws.integer(5, 15))
        amount = Decimal(amounts[index]) + Decimal(draws.integer(11, 39)) / 100
        days = (published, effective, registered)
        notice, page = _notice(
            site_config, subject, next(numbers), amount, offices[index], channels[index], days, draws
        )
        notices.append(notice)
        pages.append(page)
        published -= timedelta(draws.integer(90, 250))
    return tuple(notices), pages


def _draw_others(site_config: SiteConfig, subject: str, numbers: Any, draws: Draws) -> list[Page]:
    pages = []
    for _ in range(4):
        day = draw_day(draws, 2018, 2024)
        amount = Decimal(draws.choice(FIGURES)) + Decimal(draws.integer(11, 39)) / 100
        days = (day, day + timedelta(draws.integer(20, 60)), day + timedelta(draws.integer(5, 15)))
        office, channel = draws.choice(site_config.offices), draws.choice(site_config.channels)
        pages.append(_notice(site_config, subject, next(numbers), amount, office, channel, days, draws)[1])
    return pages


def _notice(
    site_config: SiteConfig,
    subject: str,
    number: int,
    amount: Decimal,
    office: str,
    channel: str,
    days: tuple[date, date, date],
    draws: Draws,
) -> tuple[Notice, Page]:
    publisher, words = site_config.publisher, site_config.words
    name = f"{days[0].year}/{number}"
    line = words.fee.format(number=name, subject=subject, amount=f"{amount:.2f}")
    lines = (
        f"{words.published}: {publisher.day(days[0])}",
        f"{words.effective}: {publisher.day(days[1])}",
        f"{words.registered}: {publisher.day(days[2])}",
        f"{words.office}: {office}",
        f"{words.channel}: {channel}",
        "",
        line,
        draws.choice(words.remarks),
    )
    changed = days[2] + timedelta(draws.integer(1, 9))
    path = f"{words.notice.lower()}/{name.replace('/', '-')}"
    page = publisher.page(path, f"{words.notice} {name}: {subject}", lines, changed)
    return Notice(name, amount, office, channel, days, Source(page.url, line, f"{amount:.2f}", changed)), page


FAMILY = Notices(__file__, SELECTIONS, forms("grouped", "prefix", "rounded", "cited", "dated", "marks"))
