"""The family `aliases`: a firm has had many names, each with a record of its own; the client decides which counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity, Rule
from hermes_lab.tasks.rules import Behavior, load_conventions
from hermes_lab.tasks.web_research._claims import Claim, Question, Research, Selections, Source
from hermes_lab.tasks.web_research._forms import forms
from hermes_lab.tasks.web_research._site import (
    FIGURES,
    Published,
    Publisher,
    draw_day,
    draw_publisher,
    draw_some,
)
from hermes_lab.types import Page

_ASKED = 4
"""The index of the requested name among the seven names of its firm."""
_YEARS = {1962: 0, 1968: 1}
"""Years in rules, and the index of the name that every firm has in that year."""


@dataclass(frozen=True)
class SiteConfig(Published):
    """A reference work about firms, which have branches in the same towns."""

    roles: tuple[str, ...]
    seats: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """One article: a name and its registered capital."""

    name: str
    capital: int
    source: Source


@dataclass(frozen=True, kw_only=True)
class Firm(Question):
    """A question for the capital of a firm under a name. `names` are in chronological order."""

    names: tuple[Record, ...]
    roles: Mapping[str, Record]
    branches: Mapping[str, Record]


def _claim(*records: Record, sign: int = 1) -> Claim:
    """The capital of the first record, plus that of the others, or minus it for a `sign` of -1."""
    first, *others = records
    number = first.capital + sign * sum(record.capital for record in others)
    return Claim(Decimal(number), 0, tuple(record.source for record in records))


SELECTIONS: Selections = load_conventions(
    __file__,
    {
        "earlier": Behavior(lambda instance, rule: _claim(instance.names[_ASKED - rule["number"]])),
        "later": Behavior(lambda instance, rule: _claim(instance.names[_ASKED + rule["number"]])),
        "in_year": Behavior(lambda instance, rule: _claim(instance.names[_YEARS[rule["year"]]])),
        "role": Behavior(lambda instance, rule: _claim(instance.roles[rule["role"]])),
        "branch": Behavior(lambda instance, rule: _claim(instance.branches[rule["seat"]])),
        "together": Behavior(lambda instance, rule: _claim(instance.names[_ASKED], instance.roles[rule["role"]])),
        "less": Behavior(
            lambda instance, rule: _claim(instance.names[_ASKED], instance.branches[rule["seat"]], sign=-1)
        ),
    },
)


class Aliases(Research[SiteConfig, Firm]):
    """Records of renamed firms. Every name, role and branch has a record of its own."""

    results = 4

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """A reference work."""
        words = self.words[entity.split]
        publisher = draw_publisher(entity, draws, "firms")
        return SiteConfig(publisher, words, tuple(draws.sample(words.roles, 3)), tuple(draws.sample(words.seats, 3)))

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Firm:
        """The articles of a firm with seven names, and of two firms with three."""
        publisher, words = site_config.publisher, site_config.words
        names = _draw_names(words, 7 + 3 + 2 * 3, draws)
        capitals = draw_some(draws, FIGURES, 7 + 3 + 3 + 2 * 3)
        roles = {
            role: _Article(publisher, name, capital, draws)
            for role, name, capital in zip(site_config.roles, names[7:10], capitals[7:10], strict=True)
        }
        titles = [words.branch_title.format(name=names[_ASKED], seat=seat) for seat in site_config.seats]
        branches = {
            seat: _Article(publisher, title, capital, draws)
            for seat, title, capital in zip(site_config.seats, titles, capitals[10:13], strict=True)
        }
        chain = [_Article(publisher, *each, draws) for each in zip(names[:7], capitals[:7], strict=True)]
        pages = _chain(words, chain, _periods(draws), roles, branches, draws)
        pages += [each.page(words, [draws.choice(words.remarks)]) for each in (*roles.values(), *branches.values())]
        for first in (10, 13):
            others = zip(names[first : first + 3], capitals[first + 3 : first + 6], strict=True)
            firm = [_Article(publisher, *each, draws) for each in others]
            pages += _chain(words, firm, _periods(draws)[:3], {}, {}, draws)
        asked = names[_ASKED]
        return Firm(
            request=self.ask(entity, draws, name=asked, town=publisher.town),
            pages=(*draws.shuffled(pages), *(each.page for each in publisher.standing)),
            query=f"{asked} {publisher.town}",
            reads=((chain[_ASKED].url,),),
            names=tuple(each.record(words) for each in chain),
            roles={role: each.record(words) for role, each in roles.items()},
            branches={seat: each.record(words) for seat, each in branches.items()},
        )

    def steps(self, instance: Firm, rule: Rule | None) -> list[tuple[str, ...]]:
        """Follows the links from the requested name, one name at a time."""
        steps = super().steps(instance, rule)
        urls = [record.source.url for record in instance.names]
        target = steps[-1][0]
        if len(steps) == 1 or target not in urls:
            return steps
        index = urls.index(target)
        way = range(_ASKED - 1, index - 1, -1) if index < _ASKED else range(_ASKED + 1, index + 1)
        return [steps[0], *((urls[each],) for each in way)]

    def plain(self, instance: Firm) -> Claim:
        """The record of the requested name."""
        return _claim(instance.names[_ASKED])


class _Article:
    """An article that other articles link to."""

    def __init__(self, publisher: Publisher, name: str, capital: int, draws: Draws) -> None:
        self.name = name
        self._publisher = publisher
        self._path = name.lower().replace(", ", "-").replace(" ", "-")
        self._capital = capital
        self._changed = draw_day(draws, 2019, 2024)

    @property
    def url(self) -> str:
        return self._publisher.url(self._path)

    def _line(self, words: Words) -> str:
        return str(words.capital.format(name=self.name, amount=self._capital))

    def record(self, words: Words) -> Record:
        source = Source(self.url, self._line(words), str(self._capital), self._changed)
        return Record(self.name, self._capital, source)

    def page(self, words: Words, lines: Sequence[str]) -> Page:
        return self._publisher.page(self._path, self.name, [self._line(words), *lines], self._changed)


def _draw_names(words: Words, count: int, draws: Draws) -> list[str]:
    """Different names of firms."""
    first = draws.sample(words.first, len(words.first))
    second = draws.sample(words.second, len(words.second))
    # The offset grows by one per round, so that no pair of words repeats.
    return [
        f"{first[n % len(first)]} {second[(n + n // len(first)) % len(second)]} {draws.choice(words.trades)}"
        for n in range(count)
    ]


def _periods(draws: Draws) -> list[int]:
    """The first years of seven names. Every firm has its first name in 1962 and its second in 1968."""
    years = [draws.integer(1931, 1955), draws.integer(1964, 1966)]
    year = draws.integer(1970, 1974)
    for _ in range(5):
        years.append(year)
        year += draws.integer(4, 9)
    return years


def _chain(
    words: Words,
    chain: Sequence[_Article],
    begins: Sequence[int],
    roles: Mapping[str, _Article],
    branches: Mapping[str, _Article],
    draws: Draws,
) -> list[Page]:
    """The articles of one firm. That of the requested name links to roles and branches."""
    pages = []
    for index, article in enumerate(chain):
        last = index + 1 == len(chain)
        period = words.still if last else words.born
        lines = [period.format(name=article.name, begin=begins[index], end="" if last else begins[index + 1])]
        lines += [draws.choice(words.remarks), ""]
        if index:
            lines.append(words.before.format(name=chain[index - 1].name, url=chain[index - 1].url))
        if not last:
            lines.append(words.after.format(name=chain[index + 1].name, url=chain[index + 1].url))
        if index == _ASKED:
            lines += [words.role.format(role=role, name=each.name, url=each.url) for role, each in roles.items()]
            lines += [words.branch.format(seat=seat, name=each.name, url=each.url) for seat, each in branches.items()]
        pages.append(article.page(words, lines))
    return pages


FAMILY = Aliases(__file__, SELECTIONS, forms("padded", "prefix", "cited", "grouped", "marks"))
