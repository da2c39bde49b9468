import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hermes_lab.errors import ToolError
from hermes_lab.text.diff import small_diff
from hermes_lab.text.replace import replace

TEXT = st.text(st.sampled_from('ab \n\t\r"\\“—é\U0001f600\udc80'), max_size=40)
QUOTE = st.text(st.sampled_from('ab \n\t"\\-'), min_size=1, max_size=8)


def occurrences(text: str, old: str) -> int:
    """Overlapping ones too."""
    return sum(text.startswith(old, at) for at in range(len(text)))


@given(before=TEXT, old=QUOTE, new=TEXT, after=TEXT)
def test_an_exact_passage_is_replaced_as_str_replace_does(before: str, old: str, new: str, after: str) -> None:
    text = before + old + after
    assert replace(text, old, new, everywhere=True) == (text.replace(old, new), text.count(old), "")
    if occurrences(text, old) == 1:
        assert replace(text, old, new) == (text.replace(old, new), 1, "")
    else:
        with pytest.raises(ToolError, match=r"occurs (more than )?\d+ times"):
            replace(text, old, new)


@given(text=TEXT, old=QUOTE, new=TEXT)
def test_no_patch_changes_a_text_beyond_one_passage(text: str, old: str, new: str) -> None:
    """What is outside of the passage stays; the passage is the size of the quote, but for its white space."""
    assume(old not in text)
    try:
        patched = replace(text, old, new)
    except ToolError:
        return
    assert patched.reading
    head = next((n for n, (a, b) in enumerate(zip(text, patched.text, strict=False)) if a != b), None)
    if head is None:
        head = min(len(text), len(patched.text))
    rest, patched_rest = text[head:][::-1], patched.text[head:][::-1]
    tail = next((n for n, (a, b) in enumerate(zip(rest, patched_rest, strict=False)) if a != b), None)
    if tail is None:
        tail = min(len(rest), len(patched_rest))
    removed = text[head : len(text) - tail]
    assert len(re.sub(r"\s", "", removed)) <= len(re.sub(r"\s", "", old))


def numbered_lines(indent: str, end: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([f"{indent}x{end}", f"{indent}{indent}y{end}", end]), min_size=1, max_size=8)


@given(before=numbered_lines("  ", "\r\n"), after=numbered_lines("\t", "\n"))
def test_a_loose_patch_leaves_every_other_line_as_it_is(before: list[str], after: list[str]) -> None:
    passage = "    def f():\r\n\r\n        return 1\r\n"
    text = "".join(before) + passage + "".join(after)
    patched = replace(text, "def f():\n\n    return 1\n", "def f():\n\n    z = 2\n    return z\n")
    assert patched.replacements == 1
    changed = "    def f():\r\n\r\n        z = 2\r\n        return z\r\n"
    assert patched.text == "".join(before) + changed + "".join(after)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected", "reading"),
    [
        ("a = 1\nb\n", "a = 1  \nb", "a = 2\nb", "a = 2\nb\n", "trailing whitespace"),
        ("a = 1 \t\nb\n", "a = 1\nb\n", "c\nb\n", "c\nb\n", "trailing whitespace"),
        (
            "if x:\n\tif y:\n\t\tz\n",
            "if y:\n    z",
            "if y:\n    u\n    z",
            "if x:\n\tif y:\n\t\tu\n\t\tz\n",
            "indentation",
        ),
        ("    a\n    b\n", "  a\n  b\n", "  a\n    c\n  b\n", "    a\n      c\n    b\n", "indentation"),
        ("    a\n    b\nc\n", "a\nb\n", "", "c\n", "indentation"),
        ("x  =  f(1,\t2)\ny\n", "x = f(1, 2)\ny", "x = f(1, 3)\ny", "x = f(1, 3)\ny\n", "whitespace"),
        ("go(a,   b); stop\n", "(a, b);", "(c);", "go(c); stop\n", "whitespace"),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\nc\r\n", "line endings"),
        ("a(b\r\nc)d\r\n", "b\nc", "e\nf", "a(e\r\nf)d\r\n", "line endings"),
        ("a\nb\n", "a\r\nb\r\n", "c\r\nb\r\n", "c\nb\n", "line endings"),
        ("say “hi” – 1\n", 'say "hi" - 1', 'say "hi" - 2', "say “hi” – 2\n", "quotes and dashes"),
        ("say 'hi' 1\n", "say ‘hi’ 1", "say ‘hi’ 2", "say 'hi' 2\n", "quotes and dashes"),
        ("  “a”\n  b\n", '"a"\nb', '"a"\nc', "  “a”\n  c\n", "quotes and dashes and indentation"),
        ('p("a")\nq\n', 'p(\\"a\\")\\nq', 'p(\\"b\\")\\nq', 'p("b")\nq\n', "escapes"),
        (
            "f(\n  alpha_value = 1,\n  b = 2,\n)\n",
            "f(\n  alpha_valu = 1,\n  b = 2,\n)",
            "f(\n  alpha_valu = 1,\n  b = 3,\n)",
            "f(\n  alpha_value = 1,\n  b = 3,\n)\n",
            "similar lines",
        ),
        (  # what two lines begin and end with in common counts as such
            "f(\nababbaababbbabababab\n)\n",
            "f(\nababaaabababbbaabababab\n)",
            "f(\nababaaabababbbaabababab\n) # f",
            "f(\nababbaababbbabababab\n) # f\n",
            "similar lines",
        ),
        (
            f"f(\n{'x' * 499}1\n)\n",
            f"f(\n{'x' * 499}2\n)",
            f"f(\n{'x' * 499}2\n) # f",
            f"f(\n{'x' * 499}1\n) # f\n",
            "similar lines",
        ),
    ],
)
def test_a_quote_is_read_as_it_was_meant(text: str, old: str, new: str, expected: str, reading: str) -> None:
    assert replace(text, old, new) == (expected, 1, reading)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("", "a"),
        ("a b\n", "ab"),
        ("ab\n", "a b"),
        ("x = 1\n", "x = 2"),
        ("f(\n  x = 1,\n)\n", "f(\n  y = 2,\n)"),
        ("\n\n", " "),
        (f"f(\n{'x' * 500}1\n)\n", f"f(\n{'x' * 500}2\n)"),  # long lines are equal or not
        ("a\n    b\n        c\n", "a\nb\nc\n"),  # one quoted indentation for several
    ],
)
def test_what_is_not_nearly_there_is_not_found(text: str, old: str) -> None:
    with pytest.raises(ToolError, match="not found"):
        replace(text, old, "new")


@pytest.mark.parametrize(
    ("text", "old", "complaint"),
    [
        ("x\ny\nx\n", "x", "occurs 2 times: lines 1, 3; "),
        ("aaa\n", "aa", "occurs 2 times: line 1; "),
        ("  x\ny\n    x\n", " x ", r"occurs 2 times \(ignoring differences in indentation\): lines 1, 3; "),
        ("x\n" * 40, "x", "occurs more than 10 times: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more; "),
    ],
)
def test_an_ambiguous_quote_is_never_guessed(text: str, old: str, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        replace(text, old, "new")


def test_a_strict_reading_goes_before_a_loose_one() -> None:
    assert replace("x = 1\n\tx  = 1\n", "x = 1\n", "x = 2\n").text == "x = 2\n\tx  = 1\n"


def test_everywhere_replaces_what_a_loose_reading_finds() -> None:
    assert replace("  a\nb\n    a\n", "a \n", "c\n", everywhere=True) == ("  c\nb\n    c\n", 2, "indentation")


def test_a_diff_shows_the_change_with_its_line_numbers() -> None:
    before = "".join(f"{n}\n" for n in range(1, 101))
    assert small_diff(before, before.replace("50\n", "fifty\n")) == (
        "@@ -48,5 +48,5 @@\n 48\n 49\n-50\n+fifty\n 51\n 52"
    )


def test_the_diff_of_a_large_change_is_cut() -> None:
    diff = small_diff("a\n" * 50_000, "b\n" * 50_000)
    assert len(diff.splitlines()) == 61
    assert diff.endswith("[... more lines changed ...]")
