"""Logs of a counter's queue system, in three layouts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws

LAYOUTS = {"json": "jsonl", "pairs": "log", "table": "psv"}
"""The endings of files: JSON Lines, key=value lines, cells between bars."""
HOUR = 3600


@dataclass(frozen=True)
class SiteConfig:
    """What a counter's logs look like: the layout, the names of the fields, and what can stand in them."""

    layout: str
    time: str
    event: str
    done: str
    opened: str
    closed: str
    ticket: str
    card: str
    window: str
    service: str
    secs: str
    days: str
    visits: str
    windows: tuple[str, ...]
    services: tuple[str, ...]
    series: tuple[str, ...]
    """The first two digits of cards."""
    prefixes: tuple[str, ...]
    columns: tuple[str, ...]
    """The fields but time and event, in the order of a line."""


class Visit(NamedTuple):
    """One visit: when (UTC), how many seconds, and the other fields by name."""

    at: datetime
    secs: int
    cells: Mapping[str, str]


def draw_shape(draws: Draws, words: Words) -> SiteConfig:
    """The log of a counter."""
    event, done, opened, closed = draws.choice(words.events)
    window, windows = draws.choice(words.windows)
    service, services = draws.choice(words.services)
    ticket, card = draws.choice(words.tickets), draws.choice(words.cards)
    secs = draws.choice(words.lengths)
    return SiteConfig(
        layout=draws.choice(tuple(LAYOUTS)),
        time=draws.choice(words.times),
        event=event,
        done=done,
        opened=opened,
        closed=closed,
        ticket=ticket,
        card=card,
        window=window,
        service=service,
        secs=secs,
        days=draws.choice(words.days),
        visits=draws.choice(words.visits),
        windows=windows,
        services=services,
        series=tuple(map(str, draws.sample(range(31, 99), 3))),
        prefixes=words.prefixes,
        columns=tuple(draws.shuffled([ticket, card, window, service, secs])),
    )


def draw_visits(site_config: SiteConfig, draws: Draws) -> list[Visit]:
    """40 to 65 visits of 3 to 5 days, in the order of time.

    What a rule could be about is in every log: visits in each hour of the first night and the last evening, so that no
    clock that differs gives the same days; a card that comes again within minutes; tickets that come twice; visits of
    every length; and each window, service and series of cards.
    """
    start = datetime(2023, 1, 1) + timedelta(days=draws.integer(0, 1000))
    seconds, close = _draw_times(site_config, draws)
    count = len(seconds)
    windows = [site_config.windows[n % len(site_config.windows)] for n in range(count)]
    services = draws.shuffled([site_config.services[n % len(site_config.services)] for n in range(count)])
    people = [f"{series}{draws.integer(100, 999)}" for series in site_config.series for _ in range(4)]
    cards = draws.shuffled([people[n % len(people)] for n in range(count)])
    for one, other in close:
        cards[other] = cards[one]
    lengths = _draw_lengths(count, 2 * len(close), draws)
    first = draws.integer(100, 700)
    tickets = [f"{'ABCDE'[n % 5]}{first + n}" for n in range(count)]
    order = sorted(range(count), key=lambda n: seconds[n])
    for again in draws.sample(range(8, count), 6):
        tickets[order[again]] = tickets[order[draws.integer(0, again - 1)]]
    names = (site_config.window, site_config.service, site_config.card, site_config.ticket, site_config.secs)
    return [
        Visit(
            start + timedelta(seconds=seconds[n]),
            lengths[n],
            dict(zip(names, (windows[n], services[n], cards[n], tickets[n], str(lengths[n])), strict=True)),
        )
        for n in order
    ]


def _draw_times(site_config: SiteConfig, draws: Draws) -> tuple[list[int], list[tuple[int, int]]]:
    """Seconds from the first midnight, and the pairs that are close to one another.

    The number of windows divides the length of each part, so that by turns every window has each hour in which its
    own clock could matter.
    """
    days, width = draws.integer(3, 5), len(site_config.windows)
    last = (days - 1) * 24 * HOUR
    hours = [hour for hour in range(12) for _ in range(width if not hour else 1)]
    hours = [*hours, *[0] * (-len(hours) % width)]
    seconds = [hour * HOUR + draws.integer(5, HOUR - 5) for hour in hours]
    evening = [hour for hour in (21, 22, 23) for _ in range(width)]
    seconds += [last + hour * HOUR + draws.integer(5, HOUR - 5) for hour in (*evening, *range(11, 21))]
    for day in range(1, days - 1):
        seconds += [(day * 24 + 6) * HOUR + draws.integer(0, 14 * HOUR) for _ in range(draws.integer(4, 8))]
    close = []
    for low, high in ((65, 115), (125, 175), (185, 295), (305, 595)):
        seconds.append((24 + 7) * HOUR + draws.integer(0, 12 * HOUR))
        seconds.append(seconds[-1] + draws.integer(low, high))
        close.append((len(seconds) - 2, len(seconds) - 1))
    return seconds, close


def _draw_lengths(count: int, close: int, draws: Draws) -> list[int]:
    """Seconds, some of every size. The last `close` ones, of visits that are close to one another, are of middling
    size: else the only short visit could be the only one that comes again."""
    sizes = ((11, 29), (31, 39), (41, 59), (61, 89), (91, 119), (610, 890), (910, 1190), (1210, 1490), (1510, 2400))
    lengths = [draws.integer(low, high) for low, high in sizes]
    lengths += [draws.integer(20, 1500) for _ in range(count - len(lengths) - close)]
    return draws.shuffled(lengths) + [draws.integer(130, 590) for _ in range(close)]


def render_log(site_config: SiteConfig, visits: Sequence[Visit], draws: Draws) -> str:
    """The log as it lies in the workspace, with lines about the staff in between."""
    shift = timedelta(seconds=draws.integer(60, 900))
    lines = []
    for number, visit in enumerate(visits):
        at = _written(visit.at)
        if number % 9 == 4:
            word = site_config.opened if number % 2 else site_config.closed
            idle = {site_config.window: draws.choice(site_config.windows)}
            lines.append(
                _line(site_config, _written(visit.at - min(shift, visit.at - visits[number - 1].at)), word, idle)
            )
        lines.append(_line(site_config, at, site_config.done, visit.cells))
    if site_config.layout == "table":
        lines.insert(0, "|".join((site_config.time, site_config.event, *site_config.columns)))
    return "\n".join(lines) + "\n"


def _written(at: datetime) -> str:
    return at.isoformat() + "Z"


def _line(site_config: SiteConfig, at: str, event: str, cells: Mapping[str, str]) -> str:
    if site_config.layout == "table":
        return "|".join((at, event, *(cells.get(column, "") for column in site_config.columns)))
    named: Iterable[tuple[str, str]] = (
        (site_config.time, at),
        (site_config.event, event),
        *((column, cells[column]) for column in site_config.columns if column in cells),
    )
    if site_config.layout == "pairs":
        return " ".join(f"{name}={value}" for name, value in named)
    return json.dumps({name: int(value) if name == site_config.secs else value for name, value in named})
