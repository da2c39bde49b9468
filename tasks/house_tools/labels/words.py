"""The words of depots: short and real; requests share no sentence between the splits."""

from collections.abc import Mapping

KINDS: Mapping[str, tuple[str, ...]] = {
    "train": ("books", "tools", "toys", "shoes", "seeds", "lamps", "plates", "clothes"),
    "validation": ("paints", "chairs", "games", "coats"),
    "heldout": ("radios", "bikes", "clocks", "masks", "ropes", "bowls"),
}
FIRST = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jana", "Kurt", "Lena", "Milo", "Nora")
LAST = ("Adler", "Brandt", "Cole", "Dorn", "Ekberg", "Frost", "Gray", "Hale", "Ilves", "Jonker", "Kant", "Lund", "Moss")
STREETS = ("Mill Road", "Oak Lane", "High Street", "Bay View", "Long Row", "Park Side", "Quay", "Dyke Path", "Elm Way")
TOWNS = ("Arden", "Brack", "Corby", "Dunmore", "Elstow", "Farley", "Gorse", "Holme", "Ilford", "Keld", "Louth")
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Labels for {place}, please: `{command}` prints them.",
        "{place} sent {file} with today's parcels. Print the labels with `{command}`.",
        "Can you print the labels for {place}? We do it with `{command}`.",
        "The parcels of {place} are in {file}; labels come from `{command}`.",
        "Make labels.txt for {place} by `{command}`.",
        "We ship for {place} in an hour. Run `{command}` for the labels.",
        "Use `{command}` and leave the labels of {place} in labels.txt.",
        "{file} lists what {place} ships. `{command}` turns it into labels.",
    ),
    "validation": (
        "Parcels wait at {place} without stickers: try `{command}`.",
        "To get stickers for {place}, somebody normally types `{command}`.",
        "Stickers are due at {place}; the usual call is `{command}`.",
    ),
    "heldout": (
        "A driver stands at {place} and has nothing to stick on his boxes; `{command}` would help him.",
        "What has to go on the boxes of {place} is made by `{command}`. Get it done before noon.",
        "Boxes of {place} must be addressed, as always with `{command}`.",
        "I need addresses for all boxes that {file} names, {place} being the sender: `{command}`.",
        "Address the boxes of {place}. Our habit is `{command}`, and the outcome stays in labels.txt.",
        "For {place}: boxes are packed, addresses are not there yet. `{command}` is how we go about it.",
    ),
}
