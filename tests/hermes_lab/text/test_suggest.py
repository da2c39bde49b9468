from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.text.suggest import did_you_mean


def test_a_similar_name_is_suggested_and_nothing_else() -> None:
    assert did_you_mean("ledgr", ["ledger", "labels"]) == "; did you mean ledger?"
    assert did_you_mean("xyz", ["ledger"]) == ""
    assert did_you_mean("xyz", ["ledger"], "there are: ledger") == "; there are: ledger"
    assert did_you_mean("ledgr", ["ledger"], "there are: ledger") == "; did you mean ledger?"


def test_several_are_suggested_if_asked_for() -> None:
    assert did_you_mean("ledge", ["ledger", "ledges"]) in ("; did you mean ledger?", "; did you mean ledges?")
    assert did_you_mean("ledge", ["ledger", "ledges"], most=2).count(" or ") == 1


@given(st.text(min_size=1), st.lists(st.text(min_size=1)))
def test_a_suggestion_is_always_a_known_name(name: str, known: list[str]) -> None:
    said = did_you_mean(name, known)
    assert said == "" or said.removeprefix("; did you mean ").removesuffix("?") in known
