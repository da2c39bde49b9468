"""Detects characters that are invisible to people but read by models, unless the script needs them."""

import re
import unicodedata
from collections.abc import Iterator

INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\uffa0"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{2,6}\U000e007f")
"""The flag of a subdivision, such as Scotland: a black flag, the code in tag characters, and a cancel tag."""
_SOFT_HYPHEN = "\u00ad"
_JOINERS = "\u200c\u200d"
_MARKS = "\u200e\u200f\u061c"
_EMBEDDINGS = "\u202a\u202b\u202c\u2066\u2067\u2068\u2069"
_EMOJI_STYLE = "\ufe0e\ufe0f"
_JOINING_SCRIPTS = (
    "ARABIC SYRIAC THAANA NKO MANDAIC MONGOLIAN DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA "
    "MALAYALAM SINHALA TIBETAN"
)
_UNSPACED_SCRIPTS = "THAI LAO KHMER MYANMAR"
_LOOK_ALIKES = str.maketrans(
    dict(
        zip(
            "авеіјкмнорсԁԛѕтухһԝзАВЕІЈКМНОРСЅТУХΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχγօսոցհԼ",
            "abeijkmhopcdqstyxhw3ABEIJKMHOPCSTYXABEZHIKMNOPTYXaeikvoptuxyouoghL",
            strict=True,
        )
    )
)
_WORD = re.compile(r"[^\W\d_]{2,64}")


def hidden(text: str) -> Iterator[tuple[int, str]]:
    """Positions and names of invisible characters that the text does not need.

    Allowed are joiners in scripts that join and in emoji, direction marks near right-to-left letters, and one variation
    selector after a symbol.
    """
    if text.isascii() and not INVISIBLE.search(text):
        return
    text = _FLAG.sub(lambda flag: "_" * len(flag[0]), text.removeprefix("\ufeff"))
    for run in INVISIBLE.finditer(text):
        if not _needed(text, run.start(), run[0]):
            yield run.start(), " ".join(f"U+{ord(character):04X}" for character in run[0][:8])


def mixed_words(text: str) -> list[re.Match[str]]:
    """Words of Latin letters that contain look-alike letters of other scripts."""
    return [word for word in _WORD.finditer(text) if not word[0].isascii() and _is_mixed(word[0])]


def without_look_alikes(text: str) -> str:
    """The text with look-alike letters of other scripts replaced by Latin ones."""
    return text.translate(_LOOK_ALIKES)


def _is_mixed(word: str) -> bool:
    latin = without_look_alikes(word)
    # A symbol such as delta or mu in a formula precedes Latin letters; a disguise is inside the word.
    foreign = [letter for letter in word if not letter.isascii()]
    return latin.isascii() and len(foreign) < len(word) and any("CYRILLIC" in _name(letter) for letter in foreign)


def _needed(text: str, start: int, run: str) -> bool:
    before = text[start - 1] if start else ""
    script = _name(before).partition(" ")[0]
    if run == _SOFT_HYPHEN:
        return before.isalpha()
    if len(run) <= 2 and run[0] in _EMOJI_STYLE and run[1:] in ("", "\u200d"):
        return bool(before) and (before in "#*0123456789ℹ" or unicodedata.category(before) in ("So", "Sm", "Po", "Sk"))
    if run == "\u200d" and unicodedata.category(before or " ") in ("So", "Sk"):
        return True
    if all(character in _JOINERS for character in run) and len(run) <= 2:
        return script in _JOINING_SCRIPTS.split()
    if run == "\u200b":
        return script in _UNSPACED_SCRIPTS.split()
    if len(run) == 1 and (run in "\ufe00\ufe01\ufe02" or run >= "\U000e0100"):
        return script in ("CJK", "MONGOLIAN") or unicodedata.category(before or " ") == "Sm"
    if all(character in _MARKS + _EMBEDDINGS for character in run) and len(run) <= 4:
        return any(unicodedata.bidirectional(near) in ("R", "AL") for near in text[max(0, start - 200) : start + 200])
    return False


def _name(character: str) -> str:
    return unicodedata.name(character, "") if character else ""
