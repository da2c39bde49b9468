import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_many import CLUSTERS, LIMITS, check, part, text_of

from hermes_lab.gateway.split import Limit, Piece, joined, split

SEEDS = st.lists(st.integers(0, 2**32), max_size=40)
TINY = st.builds(Limit, st.integers(4, 200), st.sampled_from(["characters", "utf16", "bytes"]))


@given(SEEDS, TINY)
@settings(max_examples=400)
def test_every_piece_keeps_the_promises_with_tiny_limits(seeds: list[int], limit: Limit) -> None:
    check(text_of([part(random.Random(seed), 2 * limit.most) for seed in seeds]), limit)


@given(st.text(), TINY)
@settings(max_examples=200)
def test_any_text_fits_and_is_whole(text: str, limit: Limit) -> None:
    pieces = split(text, limit)
    assert joined(pieces) == text
    assert all(piece.text and limit.measure(piece.sent) <= limit.most for piece in pieces)


@pytest.mark.parametrize("platform", LIMITS)
def test_every_piece_keeps_the_promises_on_each_platform(platform: str) -> None:
    limit = LIMITS[platform]
    size = min(limit.most, 60_000)
    pieces = 0
    for seed in range(5):
        rng = random.Random(seed)
        parts = []
        while sum(len(one.text) for one in parts) < 2.5 * size:
            parts.append(part(rng, size // 8))
        pieces += check(text_of(parts), limit)["pieces"]
    assert pieces == 5 if platform == "email" else pieces > 10


def test_no_text_gives_no_piece() -> None:
    assert split("", Limit(10, "bytes")) == []


def test_a_text_that_fits_is_one_piece() -> None:
    assert split("12345", Limit(5, "bytes")) == [Piece("12345")]


def test_the_unit_decides_what_fits() -> None:
    text = "😀" * 4
    assert [len(split(text, Limit(8, unit))) for unit in ("characters", "utf16", "bytes")] == [1, 1, 2]


def test_a_limit_that_the_widest_character_exceeds_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 4 bytes, not 3"):
        split("x", Limit(3, "bytes"))


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert [piece.sent for piece in split("a\ud83d b\udc00", Limit(4096, "utf16"))] == ["a? b?"]


@pytest.mark.parametrize(
    ("text", "most", "pieces"),
    [
        ("one two. three\nfour\n\nfive six", 24, ["one two. three\nfour\n\n", "five six"]),
        ("one two. three\nfour five six", 24, ["one two. three\n", "four five six"]),
        ("one two. three four five six", 12, ["one two. ", "three four ", "five six"]),
        ("one two three four", 10, ["one two ", "three four"]),
        ("完了。次へ進む", 5, ["完了。", "次へ進む"]),
        ("a. " + "b" * 9 + " " + "c" * 9, 20, ["a. bbbbbbbbb ", "ccccccccc"]),
    ],
)
def test_a_cut_is_after_a_paragraph_then_a_line_a_sentence_a_word(text: str, most: int, pieces: list[str]) -> None:
    assert [piece.text for piece in split(text, Limit(most, "characters"))] == pieces


def test_an_early_paragraph_does_not_leave_a_piece_nearly_empty() -> None:
    first, *_ = split("Hi.\n\n" + "word " * 8, Limit(20, "characters"))
    assert first.text == "Hi.\n\nword word word "


def test_a_fence_that_is_cut_is_closed_and_opened_again_with_its_info_string() -> None:
    text = "```python\nfirst = 1\nsecond = 2\nthird = 3\n```\nDone."
    assert [piece.sent for piece in split(text, Limit(40, "characters"))] == [
        "```python\nfirst = 1\nsecond = 2\n```",
        "```python\nthird = 3\n```\nDone.",
    ]


def test_a_line_of_code_that_is_cut_gets_its_closing_fence_on_a_line_of_its_own() -> None:
    pieces = split(f"~~~~\n{'x' * 40}\n~~~~", Limit(34, "characters"))
    assert [piece.sent for piece in pieces] == [f"~~~~\n{'x' * 24}\n~~~~", f"~~~~\n{'x' * 16}\n~~~~"]


def test_a_shorter_fence_within_code_is_code() -> None:
    text = "````\n```\nin\n```\nin it still\n````\nout"
    first, second = split(text, Limit(26, "characters"))
    assert (first.closed, second.opened) == ("````", "````\n")


def test_an_open_fence_is_closed_at_the_end() -> None:
    assert [piece.sent for piece in split("```\nx", Limit(4096, "utf16"))] == ["```\nx\n```"]


def test_a_code_block_in_a_list_is_opened_again_without_a_second_list_marker() -> None:
    pieces = split("- ```sh\n  make setup\n  make check\n  ```\n", Limit(34, "characters"))
    assert [piece.opened for piece in pieces] == ["", "  ```sh\n"]
    assert pieces[0].sent == "- ```sh\n  make setup\n  ```"


def test_code_is_cut_beside_rather_than_inside() -> None:
    text = "Some words first:\n```\na\n\nb\n```\nand last"
    assert [piece.sent for piece in split(text, Limit(28, "characters"))] == [
        "Some words first:\n",
        "```\na\n\nb\n```\nand last",
    ]


def test_a_fence_whose_own_lines_take_most_of_the_limit_is_text() -> None:
    pieces = split("```python\nx = 1; y = 2\n```", Limit(20, "characters"))
    assert all(not piece.opened + piece.closed for piece in pieces)


def test_a_word_is_cut_rather_than_a_blank_piece_made() -> None:
    pieces = split(" " + "x" * 30, Limit(20, "characters"))
    assert not any(piece.blank for piece in pieces)


def test_white_space_alone_is_blank() -> None:
    assert [piece.blank for piece in split("abcd\n", Limit(4, "characters"))] == [False, True]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_grapheme_cluster_is_whole(cluster: str) -> None:
    pieces = split(f"abcd{cluster}cd", Limit(len(cluster) + 3, "characters"))
    assert any(cluster in piece.text for piece in pieces)


def test_a_mark_does_not_stay_with_the_end_of_the_line_before() -> None:
    assert [piece.text for piece in split("abc\n\u0301def", Limit(5, "characters"))] == ["abc\n", "\u0301def"]


@pytest.mark.parametrize(
    ("text", "most", "pieces"),
    [
        ("see https://x.yz/abc now", 18, ["see ", "https://x.yz/abc ", "now"]),
        ("see [the long label](http://x.y) now", 30, ["see ", "[the long label](http://x.y) ", "now"]),
        ("https://x.yz/abcde![img](https://z.z/q)", 25, ["https://x.yz/abcde", "![img](https://z.z/q)"]),
        ("[a](http://x.y)[b](http://x.y)", 20, ["[a](http://x.y)", "[b](http://x.y)"]),
        ("[a label](http://x.y/zzzz)", 18, ["[a label](", "http://x.y/zzzz)"]),
        ("http://x.y/zzzz", 10, ["http://x.y", "/zzzz"]),
    ],
)
def test_a_url_or_link_is_cut_only_if_it_alone_is_too_long(text: str, most: int, pieces: list[str]) -> None:
    assert [piece.text for piece in split(text, Limit(most, "characters"))] == pieces


@pytest.mark.parametrize(
    ("text", "most", "first"),
    [
        ("aaaaaaa bb ```` c dddd", 13, "aaaaaaa "),
        ("aaaaaaa bb - ~~~ c dddd", 14, "aaaaaaa "),
        ("wordy\n``` aa bb `cc dd", 16, "wordy\n"),
    ],
)
def test_no_half_line_reads_as_a_fence(text: str, most: int, first: str) -> None:
    pieces = split(text, Limit(most, "characters"))
    assert pieces[0] == Piece(first)


def test_a_line_with_a_backtick_after_backticks_is_no_fence() -> None:
    text = "``` not a `fence`\nword"
    assert split(text, Limit(60, "characters")) == [Piece(text)]


def test_a_cut_after_a_code_block_is_better_than_after_a_line() -> None:
    first, second = split("```\naaaa\n```\nb b\ncc cc", Limit(20, "characters"))
    assert (first.text, second.text) == ("```\naaaa\n```\n", "b b\ncc cc")
