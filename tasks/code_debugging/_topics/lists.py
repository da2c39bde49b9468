"""Topics about lists and their order."""

from collections.abc import Mapping, Sequence

from hermes_lab.tasks.code_debugging._topics.topic import Args, Topic
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


TOPICS: Mapping[str, Topic] = {
    "wrap": Topic(
        names={"train": ("stretch", "section"), "validation": ("between",), "heldout": ("portion", "slice_of")},
        parameters="items, first, last",
        purpose="The items from place first to place last, counted from 1, with both ends.",
        broken_code=("    return items[first - 1 : last - 1]", "    return items[first:last]"),
        plain_code="    return items[first - 1 : last]",
        house_code=(
            "    if first > last:\n"
            "        return items[first - 1 :] + [RULE] + items[:last]\n"
            "    return items[first - 1 : last]"
        ),
        complaints={
            "train": (
                "{call} should be {want}, but one item is lost.",
                "Both ends belong to the result: {call} must give {want}.",
            ),
            "validation": ("We miss an item in {call}. It should be {want}.",),
            "heldout": ("Counted from 1 with either end, {call} comes to {want}; it is shorter now.",),
        },
        paraphrases=(
            "where first lies behind last, the items go on around the end of the list, with a {rule} at the seam",
            "our lists are rings that a {rule} closes, so a first place after the last means over the end and past it",
            "a range that runs backwards wraps: from first to the end, then {rule}, then from the start to last",
        ),
        instruction="go on around the end where first lies behind last, with {rule} between the two parts",
        rules=(0, 1, 5, 7, 100),
        report=_forward_places,
        call=_places,
        plain=lambda _, items, first, last: [item for n, item in enumerate(items, 1) if first <= n <= last],
        house=lambda _, rule, items, first, last: _around(items, rule, first, last),
    ),
    "missing": Topic(
        names={
            "train": ("peak", "highest"),
            "validation": ("top_reading",),
            "heldout": ("maximum", "summit"),
        },
        parameters="readings",
        purpose="The highest of some readings.",
        broken_code=("    return max(readings)", "    return sorted(readings)[-1]"),
        plain_code="    return max(reading for reading in readings if reading is not None)",
        house_code="    return max(RULE if reading is None else reading for reading in readings)",
        complaints={
            "train": (
                "{call} should be {want}, but a None, which is a reading that is missing, makes it fail.",
                "It stops with a TypeError when a reading is missing. {call} should be {want}.",
            ),
            "validation": ("A missing reading (None) must not break it: {call} is {want}.",),
            "heldout": ("None means that nobody read it, which stops the whole call; {want} is due for {call}.",),
        },
        paraphrases=(
            "a missing reading counts as {rule}",
            "we put {rule} where nothing was read",
            "a None stands for {rule}, which is what we assume until somebody reads it",
        ),
        instruction="take {rule} for every reading that is None",
        rules=(25, 30, 35, 40, 45, 50),
        report=lambda draws, _: [draws.shuffled([None, *(draws.integer(70, 400) for _ in range(draws.integer(2, 4)))])],
        call=_readings,
        plain=lambda _, readings: max(set(readings) - {None}),
        house=lambda _, rule, readings: max({r for r in readings if r} | ({rule} if None in readings else set())),
    ),
    "guest": Topic(
        names={"train": ("ranking", "line_up"), "validation": ("in_order",), "heldout": ("sequence", "queue_of")},
        parameters="entries",
        purpose="The names of entries, each a name and a rank such as '3', the lowest rank first.",
        broken_code=(
            "    return [name for name, rank in sorted(entries, key=lambda entry: entry[1])]",
            "    return [name for rank, name in sorted((rank, name) for name, rank in entries)]",
        ),
        plain_code="    return [name for name, rank in sorted(entries, key=lambda entry: int(entry[1]))]",
        house_code=(
            "    ranks = sorted((int(rank) != RULE, int(rank), name) for name, rank in entries)\n"
            "    return [name for _, rank, name in ranks]"
        ),
        complaints={
            "train": (
                "{call} should be {want}, but ranks are sorted as text.",
                "Rank 10 comes before rank 9. {call} has to give {want}.",
            ),
            "validation": ("The order is wrong from rank 10 on: {call} should be {want}.",),
            "heldout": ("Ranks are numbers, which it does not see; {want} is the order for {call}.",),
        },
        paraphrases=(
            "rank {rule} is for guests, who always go first",
            "whoever has rank {rule} is a guest of honour and comes before all others",
            "{rule} is no real rank but means ahead of everyone",
        ),
        instruction="put whoever has rank {rule} before all others",
        rules=(50, 60, 70, 80, 90, 99),
        report=_ranked_apart,
        call=_ranked,
        plain=lambda _, entries: _by_rank(entries),
        house=lambda _, rule, entries: _by_rank(entries, rule),
    ),
    "reset": Topic(
        names={"train": ("totals", "balances"), "validation": ("added_up",), "heldout": ("sums", "tally")},
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
            "        result[name] = result.get(name, 0) + amount if amount != RULE else 0\n"
            "    return result"
        ),
        complaints={
            "train": (
                "{call} should be {want}, but it keeps only the newest amount.",
                "Nothing is added up: {call} must give {want}.",
            ),
            "validation": ("Amounts get lost. {call} has to be {want}.",),
            "heldout": ("All amounts of a name belong together, so {call} should come to {want}.",),
        },
        paraphrases=(
            "an amount of {rule} settles the account, so neither it nor what came before it counts any longer",
            "a {rule} is no amount but wipes out the earlier ones of that name",
            "counting starts again from nothing after an entry of {rule}",
        ),
        instruction="begin again from 0 for a name where its amount is {rule}",
        rules=(77, 88, 99, 111, 500, 999),
        report=_booked_twice,
        call=_booked,
        plain=lambda _, entries: _added(entries),
        house=lambda _, rule, entries: _added(entries, rule),
    ),
    "mark": Topic(
        names={
            "train": ("place_of", "find_name"),
            "validation": ("locate",),
            "heldout": ("index_of", "position"),
        },
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
            "    for place, name in enumerate(names):\n"
            "        if name.removeprefix(RULE).lower() == wanted.lower():\n"
            "            return place\n"
            "    return -1"
        ),
        complaints={
            "train": (
                "{call} should be {want}, whether people write capitals or not.",
                "Capitals must not matter: {call} has to be {want}.",
            ),
            "validation": ("{call} finds nothing. It should be {want}, in capitals or in small letters.",),
            "heldout": ("Small or large letters are all the same to us, hence {want} for {call}.",),
        },
        paraphrases=(
            "a {rule!r} in front of a name is a mark and no part of it",
            "some names are ticked off with a {rule!r} before them, and are still the same names",
            "we put a {rule!r} before the name of a member, which does not make it another name",
        ),
        instruction="take one {rule!r} off the front of a listed name before you compare it",
        rules=("*", "+", "#", "~", "="),
        report=_known_once,
        call=_known,
        plain=lambda _, names, wanted: _hit(names, wanted),
        house=lambda _, rule, names, wanted: _hit(names, wanted, rule),
    ),
}
