"""The words of halls: short and real; requests share no sentence between the splits."""

from collections.abc import Mapping

GROUPS: Mapping[str, tuple[str, ...]] = {
    "train": ("bakers", "singers", "nurses", "pilots", "tailors", "judges", "farmers", "clerks"),
    "validation": ("divers", "masons", "poets", "guides"),
    "heldout": ("miners", "dancers", "printers", "sailors", "bankers", "weavers"),
}
FIRST = ("Ada", "Bo", "Carl", "Dora", "Emil", "Fay", "Glen", "Hedy", "Ian", "Jo", "Kim", "Leo", "Maud", "Ned", "Olga")
LAST = (
    "Abel",
    "Birk",
    "Cramer",
    "Doyle",
    "Engel",
    "Falk",
    "Grant",
    "Hart",
    "Irving",
    "Jensen",
    "Kern",
    "Lang",
    "Marsh",
)
TOWNS = ("Aldburg", "Barton", "Crewe", "Dorset", "Exham", "Fulton", "Goole", "Hexley", "Irby", "Kirton", "Leeds")
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Please plan the seats in {place}: `{command}`.",
        "Tonight's guests of {place} are in {file}. `{command}` gives each of them a seat.",
        "Could you seat the guests of {place} with `{command}`?",
        "Who sits where in {place}? Write seats.txt by `{command}`.",
        "The guest list of {place} is final: {file}. Now run `{command}`.",
        "{place} opens at eight. Its seats are planned by `{command}`.",
        "I need seats.txt for {place}, which `{command}` writes.",
        "Give the guests of {place} their seats (`{command}`).",
    ),
    "validation": (
        "People arrive soon at {place} and need chairs. The usual thing is `{command}`.",
        "Chairs for {place}: somebody types `{command}` as a rule.",
        "Assign chairs for {place} through `{command}`.",
    ),
    "heldout": (
        "An evening at {place} is coming up, and nobody knows yet which chair is whose. It is `{command}` that tells.",
        "Settle for {place} who gets which chair; `{command}` has always been our way.",
        "For the evening at {place} a chart of chairs is missing. It is made thus: `{command}`.",
        "{file} names everybody who is invited to {place}. Turn it into a chart, as usual by `{command}`.",
        "Invitations for {place} went out to all of {file}; do the chart with `{command}`.",
        "The chart for {place}, if you would: `{command}`, and leave what comes out in seats.txt.",
    ),
}
