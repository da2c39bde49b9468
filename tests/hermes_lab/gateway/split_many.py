"""Splits many random texts and checks every piece: `python split_many.py [N]`, 100,000 texts by default."""

import importlib
import random
import sys
import time
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate
from typing import NamedTuple

from hermes_lab.gateway.split import Limit, Piece, joined, split

NAMES = ("telegram", "discord", "slack", "matrix", "email")
LIMITS = {name: importlib.import_module(f"hermes_lab.gateway.platforms.{name}").PLATFORM.limit for name in NAMES}

CLUSTERS = (
    "e\u0301",
    "a\u0308\u0323\u0301",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "👍🏽",
    "🧑🏿‍🚀",
    "🇩🇪",
    "❤️",
    "1️⃣",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "क्\u200dष",
    "नि",
    "กำ",
    "\u1112\u1161\u11ab",
    "\r\n",
)
PLAIN = (
    "the",
    "model",
    "ran",
    "It works. ",
    "Really? ",
    "Yes! ",
    "naïve",
    "日本語の文章です。",
    "完了。次へ",
    "😀",
    "\u200b",
)
SPACES = (" ", " ", " ", "  ", "\n", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\n    ", "\u3000", "\r")
SHAPES = (
    "- ",
    "1. ",
    "> ",
    "# ",
    "|",
    "`",
    "``",
    "```",
    "~~~",
    "x ```` y",
    "`````x`",
    "[",
    "] ",
    "(",
    "*",
    "--",
)
INFO = ("", "python", "c++ title=x", "json ")


class Part(NamedTuple):
    """A part of a text, and the spans in it that are not to be cut."""

    text: str
    whole: tuple[tuple[int, int], ...] = ()


def part(rng: random.Random, size: int) -> Part:
    """One part; `size` is about the longest word."""
    kind = rng.choices(
        ("plain", "space", "cluster", "clusters", "url", "link", "fence", "shape", "word", "blank"),
        (30, 25, 8, 2, 5, 5, 8, 5, 3, 1),
    )[0]
    length = 1 + int(size ** rng.random())
    if kind == "cluster":
        cluster = rng.choice(CLUSTERS)
        return Part(cluster, ((0, len(cluster)),))
    if kind == "clusters":
        return text_of(
            [Part(cluster, ((0, len(cluster)),)) for cluster in rng.choices(CLUSTERS[:-1], k=length // 4 + 1)]
        )
    if kind == "url":
        url = _url(rng, length)
        before, after = rng.choice(((" ", " "), ("(", ") "), ("<", ">"), ("\n", "\n"), (" “", "” ")))
        return Part(before + url + after, ((len(before), len(before) + len(url)),))
    if kind == "link":
        label = " ".join(rng.choices(("a", "label", "naïve", "🇫🇷"), k=1 + length // 16))
        start = f"[{label}]("
        url = _url(rng, length)
        title = rng.choice(("", ' "a title"'))
        return Part(
            f"{start}{url}{title})",
            ((0, len(start + url + title) + 1), (len(start), len(start + url))),
        )
    if kind == "fence":
        indent = rng.choice(("", "", "", "  ", "> ", "- ", "   "))
        fence = rng.choice("``~") * rng.choice((3, 3, 3, 4, 7))
        return Part(f"\n{indent}{fence}{rng.choice(INFO)}" + rng.choice(("\n", "\n", "\r\n", "")))
    if kind == "word":
        return Part(rng.choice(("a", "ab-", "x=", "漢字", "😀", "\u0301", ".", "\\")) * length)
    if kind == "blank":
        return Part(rng.choice((" ", "\n", "\n\t")) * length)
    return Part(rng.choice({"plain": PLAIN, "space": SPACES, "shape": SHAPES}[kind]))


def _url(rng: random.Random, length: int) -> str:
    path = "".join(rng.choices(("a", "b/", "-", "_", "%20", "ü", "(x)", "?q=1", "&", ".", "😀"), k=length))
    return rng.choice(("https://example.org/", "http://x.y/", "www.x.y/", "mailto:", "matrix://")) + path + "z"


def text_of(parts: list[Part]) -> Part:
    """One text of several parts."""
    whole = []
    at = 0
    for text, spans in parts:
        whole += [(at + start, at + end) for start, end in spans]
        at += len(text)
    return Part("".join(text for text, _ in parts), tuple(whole))


def check(whole: Part, limit: Limit) -> Counter[str]:
    """Asserts every promise of `split` on one text; counts what was checked."""
    text = whole.text
    pieces = split(text, limit)
    assert joined(pieces) == text
    assert all(piece.text for piece in pieces), "an empty piece"
    assert all(limit.measure(piece.sent) <= limit.most for piece in pieces), "a piece is too long"
    counts = Counter(texts=1, pieces=len(pieces), blank=sum(piece.blank for piece in pieces))
    counts += _check_spans(whole, pieces, limit)
    if all(4 * (limit.measure(line) + 4) <= limit.most for line in _lines(text) if "```" in line or "~~~" in line):
        counts += _check_fences(text, pieces)
    return counts


def _check_spans(whole: Part, pieces: list[Piece], limit: Limit) -> Counter[str]:
    """A span is only cut where a piece could not hold it."""
    counts = Counter(spans=len(whole.whole))
    cuts = list(accumulate(len(piece.text) for piece in pieces))[:-1]
    for start, end in whole.whole:
        for index in range(bisect_right(cuts, start), bisect_left(cuts, end)):
            while end < len(whole.text) and unicodedata.category(whole.text[end]) in ("Mn", "Mc"):
                end += 1  # a mark that a later part begins with
            fence = limit.measure(pieces[index + 1].opened) + limit.measure(pieces[index].closed)
            needs = limit.measure(whole.text[start:end]) + fence + (4 if fence else 0)
            assert needs > limit.most, f"cut without need: {whole.text[start:end]!r}"
            counts["cut spans"] += 1
    return counts


def _check_fences(text: str, pieces: list[Piece]) -> Counter[str]:
    """Each piece closes its fences, and is code where the text is code."""
    codes, _ = _codes(text)
    at = 0
    counts: Counter[str] = Counter({"texts with fences": bool(codes), "fences": len(codes)})
    for piece in pieces:
        inside = next((info for start, end, info in codes if start <= at < end), None)
        assert bool(piece.opened) == (inside is not None), f"opened {piece.opened!r} at {at}"
        if inside is not None:
            assert _codes(piece.opened)[0][0][2] == inside
            counts["reopened"] += 1
        assert not _codes(piece.sent)[1], f"an open fence: {piece.sent!r}"
        at += len(piece.text)
    return counts


def _lines(text: str) -> list[str]:
    """The lines with their ends: CR LF, LF or CR."""
    return (
        text.replace("\r\n", "\x00")
        .replace("\n", "\n\x01")
        .replace("\r", "\r\x01")
        .replace("\x00", "\r\n\x01")
        .split("\x01")
    )


def _codes(text: str) -> tuple[list[tuple[int, int, str]], bool]:
    """The code blocks (start, end and info string), and whether the last one is open: another reader than the lab's."""
    codes = []
    run = info = ""
    start = at = 0
    for line in _lines(text):
        bare = line.rstrip("\r\n")
        if run:
            rest = bare.lstrip(" \t>").rstrip(" \t")
            if rest.startswith(run) and not rest.strip(run[0]):
                codes.append((start, at, info))
                run = ""
        else:
            rest = bare.lstrip(" \t")
            while (
                rest[:1] == ">" or rest[:2] in ("- ", "* ", "+ ") or (rest[:1].isdigit() and rest[1:3] in (". ", ") "))
            ):
                rest = (rest[1:] if rest[0] == ">" else rest[1:].lstrip(".)")).lstrip(" \t")
            mark = rest[:1]
            run = rest[: len(rest) - len(rest.lstrip(mark))] if mark and mark in "`~" else ""
            info = rest[len(run) :].rstrip()
            if len(run) < 3 or (mark == "`" and "`" in info):
                run = ""
            start = at + len(line)
        at += len(line)
    if run:
        codes.append((start, at + 1, info))
    return codes, bool(run)


def drawn(rng: random.Random) -> tuple[Part, Limit]:
    """A random text and a limit that cuts most such texts: tiny limits more often than those of platforms."""
    if rng.random() < 0.9:
        limit = Limit(
            rng.choice((rng.randint(4, 30), rng.randint(4, 300))), rng.choice(("characters", "utf16", "bytes"))
        )
        most = limit.most
    else:
        name = rng.choices(tuple(LIMITS), (10, 10, 10, 1, 1))[0]
        limit = LIMITS[name]
        most = min(limit.most, 60_000)
    parts: list[Part] = []
    wanted = rng.uniform(0, 4) * most
    while wanted > 0:
        parts.append(part(rng, 2 * most))
        wanted -= len(parts[-1].text)
    return text_of(parts), limit


def main(count: int) -> None:
    rng = random.Random(7)
    counts: Counter[str] = Counter()
    began = time.process_time()
    for _ in range(count):
        whole, limit = drawn(rng)
        try:
            counts += check(whole, limit)
        except AssertionError:
            print(f"{limit}\n{whole.text!r}")
            raise
        counts["characters"] += len(whole.text)
    print(", ".join(f"{counts[name]:,} {name}" for name in counts), f"in {time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
