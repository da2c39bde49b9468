"""The exports of a branch: sales, price records, customers, and the areas that they belong to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws

DIALECTS = ((",", "."), (";", ","), ("|", "."), (";", "."))
"""What stands between cells, and before the decimals."""


@dataclass(frozen=True)
class SiteConfig:
    """What lasts in a branch's exports: the names of files, columns and figures, and how the two systems write."""

    sales: str
    articles: str
    customers: str
    areas: str
    date: str
    article: str
    customer: str
    quantity: str
    price: str
    pack: str
    since: str
    label: str
    merged: str
    area: str
    share: str
    totals: str
    units: str
    group: str
    groups: tuple[str, ...]
    series: tuple[str, ...]
    """The first two digits of articles."""
    codes: tuple[str, ...]
    """Of the areas: one or two digits."""
    prefixes: tuple[str, ...]
    sales_dialect: tuple[str, str]
    master_dialect: tuple[str, str]
    sales_width: int
    """Digits of an article in the sales; in the master files it has five."""


_DRAWN = [each.name for each in fields(SiteConfig)][:17]


class Record(NamedTuple):
    """A price from a day on."""

    since: str
    price: Decimal
    pack: int


class Customer(NamedTuple):
    """`areas` come with their share in percent, in the order of the file. `merged`: the number of another, or none."""

    number: str
    name: str
    group: str
    merged: str
    areas: tuple[tuple[str, int], ...]


class Sale(NamedTuple):
    """One line of the sales."""

    date: str
    article: str
    customer: str
    quantity: int


@dataclass(frozen=True)
class Books:
    """What the exports of a month say."""

    sales: tuple[Sale, ...]
    articles: Mapping[str, tuple[Record, ...]]
    customers: Mapping[str, Customer]


def draw_shape(draws: Draws, words: Words) -> SiteConfig:
    """The exports of a branch."""
    group, *groups = draws.choice(words.group)
    return SiteConfig(
        **{name: draws.choice(getattr(words, name)) for name in _DRAWN},
        group=group,
        groups=tuple(groups),
        series=tuple(map(str, draws.sample(range(11, 99), 3))),
        codes=tuple(map(str, draws.sample(range(1, 30), 4))),
        prefixes=words.prefixes,
        sales_dialect=draws.choice(DIALECTS),
        master_dialect=draws.choice(DIALECTS),
        sales_width=draws.choice((5, 8, 10)),
    )


def draw_books(site_config: SiteConfig, people: Sequence[str], draws: Draws) -> Books:
    """A month of 26 to 40 sales.

    What a rule could be about is in every month: prices that rose before and between sales, so that any older price
    gives less; customers that went over to another one of other areas; customers of two areas with unlike shares;
    sales of few pieces and of the last days; every group, series and area.
    """
    year, month = draws.integer(2022, 2025), draws.integer(1, 12)
    customers = _draw_customers(site_config, people, draws)
    articles = _draw_articles(site_config, f"{year}-{month:02}", year, draws)
    numbers, buyers = list(articles), list(customers)
    count = draws.integer(26, 40)
    rest = count - 12
    goods = [numbers[n % len(numbers)] for n in range(rest)]
    days = [draws.integer(1, 28) for _ in range(rest)]
    # The first article sells before, between and after its rises, the second before its only one.
    goods += [*numbers[:1] * 3, numbers[1], *(draws.choice(numbers) for _ in range(8))]
    days += [draws.integer(2, 5), draws.integer(13, 16), draws.integer(24, 28), 3, 24, 25, 26, 27, 28, 7, 14, 21]
    quantities = [draws.integer(1, 12) for _ in range(count - 3)] + [1, 2, 3]
    who = draws.shuffled([buyers[n % len(buyers)] for n in range(count)])
    lines = [
        Sale(f"{year}-{month:02}-{day:02}", article, customer, quantity)
        for day, article, customer, quantity in zip(days, goods, who, quantities, strict=True)
    ]
    return Books(tuple(sorted(lines, key=lambda sale: sale.date)), articles, customers)


def _draw_customers(site_config: SiteConfig, people: Sequence[str], draws: Draws) -> dict[str, Customer]:
    count = draws.integer(7, len(people))
    first = draws.integer(1000, 8000)
    numbers = [str(first + step) for step in draws.sample(range(60), count)]
    names = draws.shuffled(people)
    a, b, c, d = draws.shuffled(site_config.codes)
    # The first and the third went over to the second, whose area was none of theirs.
    areas = [_shared(draws, b), _shared(draws, a), _shared(draws, c, d), _shared(draws, a, b)]
    areas += [_shared(draws, *draws.sample(site_config.codes, draws.integer(1, 2))) for _ in range(count - 4)]
    merged = {0: numbers[1], 2: numbers[1]}
    found = [
        Customer(number, names[n], site_config.groups[n % len(site_config.groups)], merged.get(n, ""), areas[n])
        for n, number in enumerate(numbers)
    ]
    return {each.number: each for each in sorted(found)}


def _shared(draws: Draws, *areas: str) -> tuple[tuple[str, int], ...]:
    """Areas with their shares, which add up to 100 and are never alike."""
    if len(areas) == 1:
        return ((areas[0], 100),)
    share = draws.choice((20, 25, 30, 35, 65, 70, 75, 80))
    return ((areas[0], share), (areas[1], 100 - share))


def _draw_articles(site_config: SiteConfig, month: str, year: int, draws: Draws) -> dict[str, tuple[Record, ...]]:
    found = {}
    for n in range(draws.integer(6, 8)):
        rises = (9, 19) if n == 0 else (draws.integer(5, 25),) if n == 1 or draws.chance() < 0.4 else ()
        since = [f"{year - 1}-{draws.integer(1, 11):02}-01", *(f"{month}-{day:02}" for day in rises)]
        cents, pack = draws.integer(205, 8000), draws.integer(2, 12)
        records = []
        for day in since:
            # An odd cent, so that no line is a round sum.
            records.append(Record(day, Decimal(cents | 1) / 100, pack))
            cents += draws.integer(36, 900)
        # Each article its own last digits.
        found[f"{site_config.series[n % 3]}{draws.integer(10, 99)}{n}"] = tuple(records)
    return found


def render_books(site_config: SiteConfig, books: Books, goods: Sequence[str], draws: Draws) -> dict[str, str]:
    """The four files, by name."""
    sales = [[s.date, s.article.zfill(site_config.sales_width), s.customer, str(s.quantity)] for s in books.sales]
    mark, point = site_config.master_dialect
    prices = [
        [article, goods[n % len(goods)], f"{record.price:.2f}".replace(".", point), str(record.pack), record.since]
        for n, (article, records) in enumerate(books.articles.items())
        for record in records
    ]
    customers = [[c.number, c.name, c.group, c.merged] for c in books.customers.values()]
    areas = [[c.number, code, str(share)] for c in books.customers.values() for code, share in c.areas]
    columns = [site_config.article, site_config.label, site_config.price, site_config.pack, site_config.since]
    exported = f"# exported {books.sales[-1].date} {draws.integer(18, 23)}:{draws.integer(10, 59)}\n"
    body = _csv(
        [[site_config.date, site_config.article, site_config.customer, site_config.quantity], *sales],
        site_config.sales_dialect[0],
    )
    return {
        f"{site_config.sales}.csv": f"{exported}{body}# {len(sales)} lines\n",
        f"{site_config.articles}.csv": _csv([columns, *draws.shuffled(prices)], mark),
        f"{site_config.customers}.csv": _csv(
            [[site_config.customer, "name", site_config.group, site_config.merged], *customers], mark
        ),
        f"{site_config.areas}.csv": _csv([[site_config.customer, site_config.area, site_config.share], *areas], mark),
    }


def _csv(rows: Sequence[Sequence[str]], mark: str) -> str:
    return "".join(mark.join(_quoted(cell, mark) for cell in row) + "\n" for row in rows)


def _quoted(cell: str, mark: str) -> str:
    """Quotes where a cell needs them, and around every other text."""
    return '"' + cell.replace('"', '""') + '"' if '"' in cell or mark in cell or " " in cell else cell
