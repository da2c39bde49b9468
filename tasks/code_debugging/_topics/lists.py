"""Topics about lists and their order."""

from collections.abc import Sequence

from hermes_lab.tasks.code_debugging._topics.topic import Args, Behaviour, topics_of
from hermes_lab.tasks.draws import Draws

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Ida", "Kai", "Lea", "Max", "Nora", "Otto", "Pia", "Rosa")


def _places(draws: Draws, _: None, __: int) -> Args:
    count = draws.integer(4, 7)
    return [draws.sample(range(10, 100), count), draws.integer(1, count), draws.integer(1, count)]


def _forward_places(draws: Draws, _: None) -> Args:
    items, one, other = _places(draws, None, 0)
    return [items, min(one, other), max(one, other)]


def _around(items: Sequence[int], seam: int, first: int, last: int) -> list[int]:
    """From `first` on, around the end and over the seam where need be, until `last`."""
    ring = [*items, seam]
    steps = (last - first) % len(ring)
    return [ring[(first - 1 + step) % len(ring)] for step in range(steps + 1)]


def _readings(draws: Draws, _: None, rule: int) -> Args:
    top = draws.choice((rule - 1, rule + 40))
    values = [draws.integer(5, top) for _ in range(draws.integer(2, 4))]
    return [draws.shuffled([*values, *draws.choice(([], [None], [None]))])]


def _ranked(draws: Draws, _: None, rule: int) -> Args:
    """Different ranks, one of which may be that of the rule."""
    ranks: list[int] = draws.sample(range(1, 40), draws.integer(3, 4))
    entries = zip(draws.sample(NAMES, 5), draws.shuffled([*ranks, *draws.choice(([], [rule], [rule]))]), strict=False)
    return [[[name, str(rank)] for name, rank in entries]]


def _ranked_apart(draws: Draws, _: None) -> Args:
    """Different ranks, which as text would stand in another order."""
    ranks = draws.shuffled([draws.integer(2, 9), draws.integer(10, 19), draws.integer(20, 39)])
    return [[[name, str(rank)] for name, rank in zip(draws.sample(NAMES, 3), ranks, strict=True)]]


def _by_rank(entries: list[list[str]], guests: int | None = None) -> list[str]:
    ranked = {int(rank): name for name, rank in entries}
    first = [ranked.pop(guests)] if guests in ranked else []
    return first + [ranked[rank] for rank in range(100) if rank in ranked]


def _booked(draws: Draws, _: None, rule: int) -> Args:
    names = draws.sample(NAMES, 2)
    return [[[draws.choice(names), draws.choice((rule, draws.integer(1, 60)))] for _ in range(draws.integer(3, 5))]]


def _booked_twice(draws: Draws, _: None) -> Args:
    one, other = draws.sample(NAMES, 2)
    names = draws.shuffled([one, one, other])
    return [[[name, draws.integer(1, 60)] for name in names]]


def _added(entries: list[list[object]], settled: int | None = None) -> dict[str, int]:
    sums: dict[str, list[int]] = {}
    for name, amount in entries:
        assert isinstance(amount, int)
        sums.setdefault(str(name), []).append(amount)
    if settled is not None:
        sums = {
            name: amounts[max([0, *(n for n, amount in enumerate(amounts, 1) if amount == settled)]) :]
            for name, amounts in sums.items()
        }
    return {name: sum(amounts) for name, amounts in sums.items()}


def _known(draws: Draws, _: None, rule: str) -> Args:
    """A list with a mark before some name, perhaps the one that is wanted, which may stand there without it too."""
    names = draws.sample(NAMES, draws.integer(3, 4))
    wanted = names[0]
    marked = [rule + names[0], *draws.choice((names, names[1:]))]
    listed = draws.choice((marked, marked, [rule + names[1], names[0], *names[2:]]))
    return [draws.shuffled(listed), _other_case(draws, wanted)]


def _known_once(draws: Draws, _: None) -> Args:
    names = draws.sample(NAMES, draws.integer(3, 5))
    return [names, _other_case(draws, draws.choice(names))]


def _other_case(draws: Draws, name: str) -> str:
    return draws.choice((name.lower(), name.upper()))


def _hit(names: Sequence[str], wanted: str, mark: str = "") -> int:
    wants = {wanted.upper(), mark + wanted.upper()}
    return next((index for index in range(len(names)) if names[index].upper() in wants), -1)


TOPICS = topics_of(
    __file__,
    {
        "wrap": Behaviour(
            report=_forward_places,
            call=_places,
            plain=lambda _, items, first, last: [item for n, item in enumerate(items, 1) if first <= n <= last],
            house=lambda _, rule, items, first, last: _around(items, rule, first, last),
        ),
        "missing": Behaviour(
            report=lambda draws, _: [
                draws.shuffled([None, *(draws.integer(70, 400) for _ in range(draws.integer(2, 4)))])
            ],
            call=_readings,
            plain=lambda _, readings: max(set(readings) - {None}),
            house=lambda _, rule, readings: max({r for r in readings if r} | ({rule} if None in readings else set())),
        ),
        "guest": Behaviour(
            report=_ranked_apart,
            call=_ranked,
            plain=lambda _, entries: _by_rank(entries),
            house=lambda _, rule, entries: _by_rank(entries, rule),
        ),
        "reset": Behaviour(
            report=_booked_twice,
            call=_booked,
            plain=lambda _, entries: _added(entries),
            house=lambda _, rule, entries: _added(entries, rule),
        ),
        "mark": Behaviour(
            report=_known_once,
            call=_known,
            plain=lambda _, names, wanted: _hit(names, wanted),
            house=lambda _, rule, names, wanted: _hit(names, wanted, rule),
        ),
    },
)
