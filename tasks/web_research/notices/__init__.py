"""The family `notices`: a body has set the same fee many times over, and which notice counts is the client's choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity, RuleType, sentence
from hermes_lab.tasks.web_research._claims import Claim, Question, Research, Selection, Source, rules_of
from hermes_lab.tasks.web_research._forms import forms
from hermes_lab.tasks.web_research._site import FIGURES, Publisher, delivery, draw_day, draw_publisher, draw_some
from hermes_lab.tasks.web_research.notices.words import LINES, REQUESTS, WORDS, Words
from hermes_lab.types import Page

_COUNT = 10
_CENT = Decimal("0.01")


@dataclass(frozen=True)
class SiteConfig:
    """A publisher of notices. The first office and channel have the newest notices of every fee."""

    publisher: Publisher
    words: Words
    offices: tuple[str, ...]
    channels: tuple[str, ...]


class Notice(NamedTuple):
    """One notice; `days` has when it was published, when it is in effect from, and when it was registered."""

    number: str
    amount: Decimal
    office: str
    channel: str
    days: tuple[date, date, date]
    source: Source


@dataclass(frozen=True, kw_only=True)
class Fee(Question):
    """What a fee is. The notices are in the order of their publication, the newest first."""

    notices: tuple[Notice, ...]


def _of(notice: Notice) -> Claim:
    return Claim(notice.amount, 2, (notice.source,))


def _newest_by(instance: Fee, rule: Mapping[str, Any]) -> Claim:
    return _of(max(instance.notices, key=lambda notice: notice.days[rule["which"]]))


def _first(instance: Fee, name: str, value: str, *, same: bool) -> Claim:
    return _of(next(notice for notice in instance.notices if (getattr(notice, name) == value) == same))


def _mean(instance: Fee, rule: Mapping[str, Any]) -> Claim:
    chosen = instance.notices[: rule["number"]]
    mean = sum((notice.amount for notice in chosen), Decimal(0)) / len(chosen)
    return Claim(mean.quantize(_CENT, ROUND_HALF_UP), 2, tuple(notice.source for notice in chosen))


def _by_label(draws: Draws, site_config: SiteConfig) -> dict[str, Any]:
    which = draws.choice((1, 2))
    label = (site_config.words.published, site_config.words.effective, site_config.words.registered)[which]
    return {"label": label, "which": which}


SELECTIONS: Mapping[str, Selection] = {
    "newest_by": Selection(
        RuleType(
            (
                'notices are put in order by "{label}"',
                'what makes a notice the latest is its "{label}"',
                'the day under "{label}" decides which notice counts',
            ),
            'take the notice with the newest day under "{label}"',
            _by_label,
        ),
        _newest_by,
    ),
    "office": Selection(
        RuleType(
            (
                "only notices from {office} are binding",
                "nobody but {office} may set such amounts",
                "what does not come from {office} is disregarded",
            ),
            "take the newest notice that comes from {office}",
            lambda draws, site_config: {"office": draws.choice(site_config.offices[1:])},
        ),
        lambda instance, rule: _first(instance, "office", rule["office"], same=True),
    ),
    "without": Selection(
        RuleType(
            (
                "what appeared by way of {channel} has no force",
                "notices in {channel} are only for information",
                "{channel} is not a valid place for a notice",
            ),
            "take the newest notice that did not appear by way of {channel}",
            lambda draws, site_config: {"channel": site_config.channels[0]},
        ),
        lambda instance, rule: _first(instance, "channel", rule["channel"], same=False),
    ),
    "behind": Selection(
        RuleType(
            (
                "amounts are taken over with a delay of {number} in the row of notices",
                "contracts follow the notices, {number} behind",
                "the row of notices is followed at a distance of {number}",
            ),
            "go back {number} from the newest notice and take that one",
            lambda draws, site_config: {"number": draws.choice((1, 2))},
        ),
        lambda instance, rule: _of(instance.notices[rule["number"]]),
    ),
    "oldest": Selection(
        RuleType(
            (
                "old contracts keep the amount that was published first of all",
                "later changes do not touch it, the very first notice stays valid",
                "the amount is frozen as it was first published",
            ),
            "take the notice that was published first of all",
        ),
        lambda instance, rule: _of(instance.notices[-1]),
    ),
    "mean": Selection(
        RuleType(
            (
                "amounts are evened out over {number} notices",
                "a single notice says too little, so {number} are averaged",
                "the books carry the average of {number} notices",
            ),
            "average the newest {number} notices, half a cent up, and cite each",
            lambda draws, site_config: {"number": draws.choice((2, 3, 4))},
            unseen=True,
        ),
        _mean,
    ),
}
FORMS = forms("grouped", "prefix", "rounded", "cited", "dated", "marks")


class Notices(Research[SiteConfig, Fee]):
    """Whichever notice a rule picks, it is another one than the newest."""

    name = "notices"
    noun = "committee"
    summary = "find what a fee is among notices that replace each other"
    subject = "which notices count for {place}, and how it wants them told"
    selections = SELECTIONS
    forms = FORMS
    rules = rules_of(SELECTIONS, FORMS)

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """A town, with the offices and channels of its notices."""
        words = WORDS[entity.split]
        publisher = draw_publisher(entity, draws, "notices")
        return SiteConfig(
            publisher, words, tuple(draws.sample(words.offices, 4)), tuple(draws.sample(words.channels, 3))
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Fee:
        """Ten notices about the fee, and four about each of three others."""
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
        request = entity.phrase(draws, REQUESTS).format(
            subject=subject, town=publisher.town, place=entity.called(self.noun)
        )
        return Fee(
            request=f"{sentence(request)} {delivery(entity, draws, LINES)}",
            pages=(*draws.shuffled([*pages, withdrawn, index]), *(each.page for each in publisher.standing)),
            outputs=("answer.json",),
            query=f"{subject} {publisher.town} {words.notice.lower()}",
            reads=(tuple(draws.shuffled([notice.source.url for notice in notices])),),
            notices=notices,
        )

    def plain(self, instance: Fee) -> Claim:
        """The newest notice counts."""
        return _of(instance.notices[0])


def _draw_notices(
    site_config: SiteConfig, subject: str, numbers: Any, draws: Draws
) -> tuple[tuple[Notice, ...], list[Page]]:
    """The notices about the fee in question, newest first.

    Each rule picks one of its own: 0 by publication, 1 and 2 going back, 3 the channel, 4 to 6 the offices, 7 and 8 the
    other days, 9 the oldest.
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


FAMILY = Notices()
