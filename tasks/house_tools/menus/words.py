"""The words of kitchens: short and real; requests share no sentence between the splits."""

from collections.abc import Mapping

COURSES: Mapping[str, tuple[str, ...]] = {
    "train": ("soups", "salads", "roasts", "pies", "stews", "sweets", "grills", "snacks"),
    "validation": ("pastas", "cakes", "drinks", "sides"),
    "heldout": ("curries", "fish", "breads", "tarts", "noodles", "cheeses"),
}
KINDS = ("red", "green", "golden", "smoked", "baked", "fried", "spiced", "cold", "sour", "wild", "farmer's", "summer")
MAINS = ("carrot", "lentil", "onion", "lamb", "pepper", "bean", "squash", "duck", "beet", "leek", "mushroom", "cabbage")
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Write the menu of {place}: `{command}`.",
        "Today's dishes of {place} are in {file}. `{command}` makes the menu of them.",
        "Please get menu.txt ready for {place} with `{command}`.",
        "{place} opens soon and has no menu. Run `{command}`.",
        "The cook of {place} sent {file}; `{command}` turns it into a menu.",
        "We need a menu for {place} (`{command}`).",
        "Could you do the menu for {place}? It goes by `{command}`.",
        "By `{command}`, make menu.txt of what {place} cooks.",
    ),
    "validation": (
        "Hungry people wait at {place}. What they can have is listed through `{command}`.",
        "List what {place} serves, normally `{command}` does.",
        "A list of food is due at {place}: `{command}`.",
    ),
    "heldout": (
        "Chalk is at hand in {place}, but what goes on the board? `{command}` would say.",
        "Somebody at {place} wants to know what to put on the board tonight. Our habit: `{command}`.",
        "The board of {place} is empty; fill it in the customary manner, `{command}`.",
        "For {place}, have the board's wording made by `{command}`, out of {file}.",
        "Supper at {place} needs its board. The manner is `{command}`, the outcome menu.txt.",
        "{file} came from {place}, and `{command}` is how a board is worded from it.",
    ),
}
