"""The words of wards: short and real; requests share no sentence between the splits."""

from collections.abc import Mapping

TRADES: Mapping[str, tuple[str, ...]] = {
    "train": ("doctors", "cooks", "drivers", "guards", "porters", "cleaners", "trainers", "students"),
    "validation": ("barbers", "plumbers", "painters", "readers"),
    "heldout": ("surgeons", "bakers", "chaplains", "fitters", "welders", "typists"),
}
NAMES = (
    "Abbas",
    "Bruno",
    "Carla",
    "Derek",
    "Elsa",
    "Frida",
    "Greta",
    "Hugo",
    "Inga",
    "Jonas",
    "Karin",
    "Lukas",
    "Mona",
)
SURNAMES = ("Ames", "Bell", "Curtis", "Drew", "Eaton", "Ford", "Gibbs", "Hess", "Innis", "Judd", "Kemp", "Lowe", "Marr")
PHONES = range(2000, 9000, 13)
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Fill the roster of {place} with `{command}`, please.",
        "{place} needs its roster for tomorrow. It comes from `{command}`.",
        "Can you do the roster for {place}? The command is `{command}`.",
        "Who works when at {place}? {file} has the shifts, and `{command}` fills the roster.",
        "Run `{command}` for the shifts of {place}.",
        "The shifts of {place} are settled: {file}. Make roster.txt by `{command}`.",
        "roster.txt for {place} is late. `{command}` writes it.",
        "Once more the roster for {place}, with `{command}`.",
    ),
    "validation": (
        "People at {place} want to know their hours: try `{command}`.",
        "The hours of {place} have to be posted, mostly by `{command}`.",
        "Post the hours for {place} through `{command}`.",
    ),
    "heldout": (
        "Staff at {place} ask when they are on duty; the list for that is made by `{command}`.",
        "Put up the duty list of {place}. We have always done that with `{command}`.",
        "For the board at {place} a duty list is wanted: `{command}`.",
        "{file} holds who is on duty at {place}, and `{command}` would make a list of it.",
        "A list of duties is missing at {place}. Our custom is `{command}`, and its place is roster.txt.",
        "Before the night begins at {place}, somebody has to do `{command}`, so that duties are known.",
    ),
}
