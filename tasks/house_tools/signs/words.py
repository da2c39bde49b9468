"""The words of museums' wings: short and real; requests share no sentence between the splits."""

from collections.abc import Mapping

KINDS: Mapping[str, tuple[str, ...]] = {
    "train": ("vases", "coins", "masks", "rings", "bells", "rugs", "swords", "stamps"),
    "validation": ("globes", "flutes", "drums", "fans"),
    "heldout": ("shields", "chalices", "harps", "scrolls", "idols", "helmets"),
}
TITLES = ("Dawn", "Storm", "Harvest", "Silence", "Return", "Winter", "Mirror", "River", "Feast", "Journey", "Sleep")
MARKS = ("Old", "Red", "Last", "Great", "Lost", "Blue", "First", "White", "Dark", "Far", "Golden", "Second")
MAKERS = ("Albers", "Bosman", "Carlo", "Dietz", "Evans", "Fabre", "Gallo", "Hooft", "Ibsen", "Janda", "Klee", "Lotti")
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Make the signs for {place}: `{command}`.",
        "{place} opens soon and needs its signs. They are made by `{command}`.",
        "Would you make the signs of {place} with `{command}`?",
        "What {place} shows is in {file}; `{command}` makes signs of it.",
        "Signs for {place}, as ever by `{command}`.",
        "Run `{command}`, for {place} has no signs yet.",
        "I want signs.txt for {place}. `{command}` is what makes it.",
        "New things came to {place} ({file}). Make their signs: `{command}`.",
    ),
    "validation": (
        "Visitors of {place} find no captions: try `{command}`.",
        "Captions for {place} are due, normally from `{command}`.",
        "Set the captions of {place} through `{command}`.",
    ),
    "heldout": (
        "Nobody can tell what hangs in {place}. The plates for it come out of `{command}`.",
        "Plates are to be engraved for {place}; their text is the work of `{command}`.",
        "{file} lists all pieces of {place}, and the engraver waits for what `{command}` makes of it.",
        "Text for the plates at {place}, if you please, in the way of the house: `{command}`.",
        "The engraver of {place} starts at noon. Let him have signs.txt by `{command}`.",
        "Without plates {place} cannot open. `{command}` settles their text.",
    ),
}
