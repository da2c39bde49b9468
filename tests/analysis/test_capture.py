"""Capture: precision and recall of what libraries tell."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.analysis.skill_effects.capture import Capture, LibraryClaims, captures
from hermes_lab.analysis.stats.intervals import Rate

RULES = ("a", "b", "c", "d")


def capture(met: str, **claims: tuple[str, ...]) -> Capture:
    told = LibraryClaims(
        lane="on-r0-w0", arm="on", round=1, experience=1, rules=frozenset(RULES), met=frozenset(met), claims=claims
    )
    (found,) = captures([told])
    return found


def test_two_skills_of_one_rule_are_two_true_claims_and_one_rule() -> None:
    found = capture("ab", one=("a",), two=("a",), three=("",), four=())
    assert found.precision == Rate(2, 3)
    assert found.recall == Rate(1, 4)
    assert found.recall_met == Rate(1, 2)
    assert (found.skills, found.silent, found.untrue) == (4, 1, ("three",))


def test_a_rule_that_is_told_before_it_was_met_counts_for_all_rules_alone() -> None:
    found = capture("a", given=("b",))
    assert (found.recall, found.recall_met) == (Rate(1, 4), Rate(0, 1))


def test_an_empty_library_has_no_precision_and_recalls_nothing() -> None:
    found = capture("")
    assert found.to_dict()["precision"]["rate"] is None
    assert found.to_dict()["recall_met"]["rate"] is None
    assert found.recall == Rate(0, 4)


claims = st.dictionaries(st.sampled_from(("s", "t", "u", "v")), st.lists(st.sampled_from((*RULES, "")), max_size=5))


@given(claims, st.sets(st.sampled_from(RULES)))
def test_counts_are_within_what_there_is(told: dict[str, list[str]], met: set[str]) -> None:
    found = capture("".join(met), **{name: tuple(each) for name, each in told.items()})
    for rate in (found.precision, found.recall, found.recall_met):
        assert 0 <= rate.successes <= rate.trials
    assert found.recall.successes >= found.recall_met.successes
    assert found.recall.successes <= found.precision.successes
    assert bool(found.untrue) == (found.precision.successes < found.precision.trials)


@given(claims, st.sampled_from(RULES))
def test_one_more_true_claim_lowers_neither(told: dict[str, list[str]], rule: str) -> None:
    before = capture("abcd", **{name: tuple(each) for name, each in told.items()})
    after = capture("abcd", **{name: tuple(each) for name, each in told.items()}, new=(rule,))
    assert after.recall.successes >= before.recall.successes
    assert after.precision.value >= before.precision.value or before.precision.trials == 0
