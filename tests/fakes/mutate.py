"""Random faults in JSON, as faulty servers and proxies produce them."""

from random import Random
from typing import Any

import msgspec

JUNK = (None, True, 0, -1, 1.5, 2**60, "", "x", "é\U0001f600", [], {}, [None], [[]], {"type": "x"}, {"type": None})
_FIELDS = ("extra", "type", "content", "error", "usage", "index")


def mutated(value: Any, random: Random) -> Any:
    """A copy of the value with one to four faults: a part is missing, null, of another type, duplicated, or moved."""
    spoiled = _copy(value)
    for _ in range(random.randint(1, 4)):
        if not (places := _places(spoiled)):
            break
        _spoil(*random.choice(places), random)
    return spoiled


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in the value with each of its keys or indices."""
    places = []
    containers = [value] if isinstance(value, (dict, list)) else []
    for container in containers:  # which grows
        keys = container if isinstance(container, dict) else range(len(container))
        for key in keys:
            places.append((container, key))
            if isinstance(container[key], (dict, list)):
                containers.append(container[key])
    return places


def _spoil(container: Any, key: Any, random: Random) -> None:
    fault = random.randrange(6)
    if fault == 0:
        del container[key]
    elif fault == 1:
        container[key] = None
    elif fault == 2:
        container[key] = _copy(random.choice(JUNK))
    elif fault == 3 and isinstance(container, list):
        random.shuffle(container)
    elif fault == 4 and isinstance(container, list):
        container.insert(random.randrange(len(container) + 1), _copy(container[key]))
    elif isinstance(container, dict):
        container[random.choice(_FIELDS)] = _copy(random.choice(JUNK))
