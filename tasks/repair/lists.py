"""Topics about lists and their order."""

from collections.abc import Mapping, Sequence

from tasks.repair.topic import Args, Topic
from tasks.worlds import Draws

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Ida", "Kai", "Lea", "Max", "Nora", "Otto", "Pia", "Rosa")


def _places(draws: Draws, _: None, __: int) -> Args:
    count = draws.integer(4, 7)
    return [draws.sample(range(10, 100), count), draws.integer(1, count), draws.integer(1, count)]


def _forward_places(draws: Draws, _: None) -> Args:
    items, one, other = _places(draws, None, 0)
    return [items, min(one, other), max(one, other)]


def _around(items: Sequence[int], first: int, last: int) -> list[int]:
    """From `first` on, around the end where need be, until `last`."""
    steps = (last - first) % len(items)
    return [items[(first - 1 + step) % len(items)] for step in range(steps + 1)]


def _readings(draws: Draws, _: None, rule: int) -> Args:
    top = draws.choice((rule - 1, rule + 40))
    values = [draws.integer(5, top) for _ in range(draws.integer(2, 4))]
    return [draws.shuffled([*values, *draws.choice(([], [None], [None]))])]


def _ranked(draws: Draws, _: None, __: int) -> Args:
    ranks = draws.sample(range(1, 30), 3)
    return [[[name, str(draws.choice(ranks))] for name in draws.sample(NAMES, draws.integer(3, 5))]]


def _ranked_apart(draws: Draws, _: None) -> Args:
    """Different ranks, which as text would stand in another order."""
    ranks = draws.shuffled([draws.integer(2, 9), draws.integer(10, 19), draws.integer(20, 99)])
    return [[[name, str(rank)] for name, rank in zip(draws.sample(NAMES, 3), ranks, strict=True)]]


def _by_rank(entries: list[list[str]], *, names: bool) -> list[str]:
    return [name for _, _, name in sorted((int(e[1]), e[0] if names else n, e[0]) for n, e in enumerate(entries))]


def _booked(draws: Draws, _: None, __: int) -> Args:
    names = draws.sample(NAMES, 2)
    return [[[draws.choice(names), draws.choice((0, draws.integer(1, 60)))] for _ in range(draws.integer(3, 5))]]


def _booked_twice(draws: Draws, _: None) -> Args:
    one, other = draws.sample(NAMES, 2)
    names = draws.shuffled([one, one, other])
    return [[[name, draws.integer(1, 60)] for name in names]]


def _added(entries: list[list[object]], *, clear: bool) -> dict[str, int]:
    sums: dict[str, list[int]] = {}
    for name, amount in entries:
        assert isinstance(amount, int)
        sums.setdefault(str(name), []).append(amount)
    if clear:
        sums = {
            name: amounts[max(n for n, a in enumerate([0, *amounts]) if a == 0) :] for name, amounts in sums.items()
        }
    return {name: sum(amounts) for name, amounts in sums.items()}


def _known(draws: Draws, _: None, __: int) -> Args:
    names = draws.sample(NAMES, draws.integer(3, 4))
    doubled = draws.choice((names, draws.shuffled([*names, names[0]])))
    return [doubled, _other_case(draws, draws.choice((names[0], names[0], *names)))]


def _known_once(draws: Draws, _: None) -> Args:
    names = draws.sample(NAMES, draws.integer(3, 5))
    return [names, _other_case(draws, draws.choice(names))]


def _other_case(draws: Draws, name: str) -> str:
    return draws.choice((name.lower(), name.upper()))


def _hits(names: Sequence[str], wanted: str) -> list[int]:
    return [place for place in range(len(names)) if names[place].upper() == wanted.upper()]


TOPICS: Mapping[str, Topic] = {
    "wrap": Topic(
        names=("stretch", "section", "between", "portion"),
        parameters="items, first, last",
        purpose="The items from place first to place last, counted from 1, with both ends.",
        broken_code=("    return items[first - 1 : last - 1]", "    return items[first:last]"),
        plain_code="    return items[first - 1 : last]",
        house_code=(
            "    if first > last:\n        return items[first - 1 :] + items[:last]\n    return items[first - 1 : last]"
        ),
        complaints=(
            "{call} should be {want}, but one item is lost.",
            "Both ends belong to the result: {call} must give {want}.",
            "We miss an item in {call}. It should be {want}.",
        ),
        clauses=(
            "where first lies behind last, the items go on around the end of the list",
            "our lists are rings, so a first place after the last one means over the end and on from the beginning",
            "a range that runs backwards wraps: from first to the end, then from the start to last",
        ),
        rules=(0,),
        report=_forward_places,
        call=_places,
        plain=lambda _, items, first, last: [item for n, item in enumerate(items, 1) if first <= n <= last],
        house=lambda _, __, items, first, last: _around(items, first, last),
    ),
    "missing": Topic(
        names=("peak", "highest", "top_reading", "maximum"),
        parameters="readings",
        purpose="The highest of some readings.",
        broken_code=("    return max(readings)", "    return sorted(readings)[-1]"),
        plain_code="    return max(reading for reading in readings if reading is not None)",
        house_code="    return max(RULE if reading is None else reading for reading in readings)",
        complaints=(
            "{call} should be {want}, but a None, which is a reading that is missing, makes it fail.",
            "It stops with a TypeError when a reading is missing. {call} should be {want}.",
            "A missing reading (None) must not break it: {call} is {want}.",
        ),
        clauses=(
            "a missing reading counts as {rule}",
            "we put {rule} where nothing was read",
            "None stands for {rule}, which is what we assume until somebody reads it",
        ),
        rules=(25, 30, 35, 40, 45, 50),
        report=lambda draws, _: [draws.shuffled([None, *(draws.integer(70, 400) for _ in range(draws.integer(2, 4)))])],
        call=_readings,
        plain=lambda _, readings: max(set(readings) - {None}),
        house=lambda _, rule, readings: max({r for r in readings if r} | ({rule} if None in readings else set())),
    ),
    "ties": Topic(
        names=("ranking", "line_up", "in_order", "sequence"),
        parameters="entries",
        purpose="The names of entries, each a name and a rank such as '3', the lowest rank first.",
        broken_code=(
            "    return [name for name, rank in sorted(entries, key=lambda entry: entry[1])]",
            "    return [name for rank, name in sorted((rank, name) for name, rank in entries)]",
        ),
        plain_code="    return [name for name, rank in sorted(entries, key=lambda entry: int(entry[1]))]",
        house_code="    return [name for name, rank in sorted(entries, key=lambda entry: (int(entry[1]), entry[0]))]",
        complaints=(
            "{call} should be {want}, but ranks are sorted as text.",
            "Rank 10 comes before rank 9. {call} has to give {want}.",
            "The order is wrong from rank 10 on: {call} should be {want}.",
        ),
        clauses=(
            "entries of the same rank go by name",
            "where two share a rank, the alphabet decides",
            "equal ranks are put in alphabetical order",
        ),
        rules=(0,),
        report=_ranked_apart,
        call=_ranked,
        plain=lambda _, entries: _by_rank(entries, names=False),
        house=lambda _, __, entries: _by_rank(entries, names=True),
    ),
    "reset": Topic(
        names=("totals", "balances", "added_up", "sums"),
        parameters="entries",
        purpose="A dict of what the entries, each a name and an amount, add up to for each name.",
        broken_code=(
            "    return dict(entries)",
            "    result = {}\n    for name, amount in entries:\n        result[name] = amount\n    return result",
        ),
        plain_code=(
            "    result = {}\n"
            "    for name, amount in entries:\n"
            "        result[name] = result.get(name, 0) + amount\n"
            "    return result"
        ),
        house_code=(
            "    result = {}\n"
            "    for name, amount in entries:\n"
            "        result[name] = result.get(name, 0) + amount if amount else 0\n"
            "    return result"
        ),
        complaints=(
            "{call} should be {want}, but it keeps only the newest amount.",
            "Nothing is added up: {call} must give {want}.",
            "Amounts get lost. {call} has to be {want}.",
        ),
        clauses=(
            "an amount of 0 settles the account, so what came before it no longer counts",
            "a 0 wipes out the earlier amounts of that name",
            "counting starts again from nothing after an entry of 0",
        ),
        rules=(0,),
        report=_booked_twice,
        call=_booked,
        plain=lambda _, entries: _added(entries, clear=False),
        house=lambda _, __, entries: _added(entries, clear=True),
    ),
    "later": Topic(
        names=("place_of", "find_name", "locate", "index_of"),
        parameters="names, wanted",
        purpose="Where a name stands in a list, counted from 0; -1 if it does not.",
        broken_code=(
            "    return names.index(wanted) if wanted in names else -1",
            "    for place, name in enumerate(names):\n"
            "        if name == wanted:\n"
            "            return place\n"
            "    return -1",
        ),
        plain_code=(
            "    for place, name in enumerate(names):\n"
            "        if name.lower() == wanted.lower():\n"
            "            return place\n"
            "    return -1"
        ),
        house_code=(
            "    places = [place for place, name in enumerate(names) if name.lower() == wanted.lower()]\n"
            "    return places[-1] if places else -1"
        ),
        complaints=(
            "{call} should be {want}, whether people write capitals or not.",
            "Capitals must not matter: {call} has to be {want}.",
            "{call} finds nothing. It should be {want}, however the name is written.",
        ),
        clauses=(
            "if a name is there twice, the later one is valid",
            "a name that comes again replaces the earlier one, so the last place counts",
            "of two equal names we mean the last",
        ),
        rules=(0,),
        report=_known_once,
        call=_known,
        plain=lambda _, names, wanted: min(_hits(names, wanted)),
        house=lambda _, __, names, wanted: max(_hits(names, wanted)),
    ),
}
