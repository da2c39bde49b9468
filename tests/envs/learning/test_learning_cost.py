"""What a review adds to the library."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.envs.learning.knowledge import TOKEN_BYTES, Added, added, after_review, digest_of, emptied
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import Notes
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.types import MemoryWrite, Review, Skill, SkillWrite

NAMES = st.sampled_from(["one", "two", "three"])
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=30).filter(str.strip)


def skill(
    name: str, body: str = "Do it so.", files: dict[str, bytes] | None = None, description: str = "For it."
) -> Skill:
    return skill_format.parse(skill_format.render(name, description, body), files or {})


def knowing(*skills: Skill, notes: tuple[str, ...] = ()) -> Knowledge:
    return Knowledge(Library(skills), Notes(notes))


def test_a_new_skill_costs_its_line_in_the_prompt_and_its_text() -> None:
    new = skill("way", "Höre zu.", {"references/a.md": b"12345678"})
    line = '- "way": For it.\n'
    text = len(skill_format.shown(new).encode()) + 8 + len("references/a.md")
    assert added(knowing(), knowing(new)) == Added(len(line) / 4, text / 4)
    assert "ö" in skill_format.shown(new)
    assert len(skill_format.shown(new)) < len(skill_format.shown(new).encode())  # bytes count, not characters


def test_a_longer_text_costs_what_was_added() -> None:
    before, after = knowing(skill("way", "Do it.")), knowing(skill("way", "Do it. Then this."))
    assert added(before, after) == Added(0.0, len(" Then this.") / 4)


def test_a_text_that_replaces_another_one_costs_what_is_new_in_it() -> None:
    old = skill("way", "Ask the desk before the order, twice.")
    new = skill("way", "Run the sum after each line, at once.")
    assert len(old.text) == len(new.text)
    words = sum(len(word) + 1 for word in ("Run", "sum", "after", "each", "line,", "at", "once."))
    assert added(knowing(old), knowing(new)).body >= words / 4
    notes = [knowing(notes=(text,)) for text in ("The desk is closed.", "The hall is locked.")]
    assert added(*notes).listed == len(" hall locked.\n") / 4 - 0.25


def test_a_long_text_that_repeats_itself_is_compared_in_bounded_time() -> None:
    """Comparing all pairs of words would take an hour, in which no rollout goes on."""
    old = skill("way", "on and " * 7_000 + "off.")
    longer, other = skill("way", "on and " * 7_000 + "on and off."), skill("way", "and on " * 7_000 + "done.")
    assert added(knowing(old), knowing(longer)).body == len("on and ") / 4
    body = len(skill_format.body(other).encode())
    assert body - 8 <= added(knowing(old), knowing(other)).body * 4 <= body + 2


@given(TEXT, TEXT)
def test_a_text_never_costs_less_than_it_grew_nor_more_than_its_length(one: str, other: str) -> None:
    before, after = (skill("way", text) for text in (one, other))
    cost = added(knowing(before), knowing(after)).body * 4
    sizes = [len(skill_format.shown(each).encode()) for each in (before, after)]
    assert max(0, sizes[1] - sizes[0]) <= cost <= sizes[1]


def test_notes_cost_as_much_as_what_is_listed() -> None:
    assert added(knowing(), knowing(notes=("abc", "defg"))) == Added((4 + 5) / TOKEN_BYTES, 0.0)


@given(st.lists(st.tuples(NAMES, TEXT), max_size=3), st.lists(st.tuples(NAMES, TEXT), max_size=3))
def test_nothing_is_earned_by_deleting_or_shortening(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    before, after = (knowing(*{name: skill(name, text) for name, text in each}.values()) for each in (one, other))
    found = added(before, after)
    assert found.listed >= 0
    assert found.body >= 0
    assert added(after, after) == Added(0.0, 0.0)
    kept = {name for name in after.library.skills if name not in before.library.skills}
    assert (found.listed > 0) == bool(kept)


def test_what_a_review_wrote_is_in_the_library_after_it() -> None:
    text = skill_format.render("way", "For it.", "Do it so.", origin="review")
    review = Review(
        writes=(SkillWrite("create", "way", text, "review", "e", "m", "", triggers=("desk:rule",)),),
        memory=(MemoryWrite("add", "memory", "review", "e", "m", "", "", "A fact.", ""),),
    )
    after = after_review(knowing(), review, MemoryConfig())
    assert after.library.skills["way"].text == text
    assert after.notes.memory == ("A fact.",)
    assert after.learnt_from == {"way": ("desk:rule",)}
    assert digest_of(after) == f"{after.library.snapshot}+{after.notes_snapshot}"
    assert "+" not in digest_of(knowing())


def test_the_path_of_a_new_file_costs_like_its_text() -> None:
    before, after = (knowing(skill("way", files=files)) for files in ({}, {"Höre-zu/alles.md": b""}))
    assert added(before, after) == Added(0.0, len("Höre-zu/alles.md".encode()) / 4)
    assert added(after, after) == Added(0.0, 0.0)
    assert added(after, before) == Added(0.0, 0.0)


parts = st.lists(st.text("ab-é. ", min_size=1, max_size=255), min_size=1, max_size=7).map("/".join)
paths = st.one_of(parts, parts.map("references/{}".format))


@given(st.sets(paths, min_size=1, max_size=12))
def test_an_emptied_path_is_as_long_and_is_valid(names: set[str]) -> None:
    before = knowing(skill("way", files=dict.fromkeys(names, b"text")))
    after = emptied(before)
    files = after.library.skills["way"].files
    assert len(files) == len(names)
    most = sum(max(len(name), len("references/12")) for name in names)
    assert sum(map(len, names)) - len(names) <= sum(map(len, files)) <= most
    for name in files:
        skill_format.check_path(name)
    assert not names & files.keys()
    assert {name.startswith("references/") for name in names} == {name.startswith("references/") for name in files}
    assert digest_of(emptied(after)) == digest_of(after)


def test_an_emptied_library_is_as_long_and_says_nothing() -> None:
    before = knowing(skill("way", "Use --latest order."), notes=("The desk is closed.",))
    after = emptied(before)
    assert added(knowing(), before).listed == added(knowing(), after).listed
    assert "--latest" not in after.library.skills["way"].text
    assert after.notes.memory != before.notes.memory
    assert digest_of(emptied(after)) == digest_of(after)
