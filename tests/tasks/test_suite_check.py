"""A suite that is not what it claims is refused with the reason: each of these is unsound in one way."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox, Workspace
from hermes_lab.tasks.admission import (
    check_rule_types,
    check_splits_disjoint,
    differences,
    find_rule_leaks,
    miscased,
    spread,
    static_checks,
)
from hermes_lab.tasks.check import CheckReport, check_suite, rubric_of, too_little
from hermes_lab.tasks.data_analysis.ledger import FAMILY, Export, Ledger, SiteConfig
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, RuleType, criterion, shell
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.wording import shared_templates
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]
anyio_test = pytest.mark.anyio


def suite_of(family: Ledger = FAMILY, **spec: Any) -> WorldSuite:
    return WorldSuite("ledger", (family,), WorldSpec(**spec))


async def check(suite: WorldSuite, open_sandbox: OpenSandbox, count: int = 3, **options: Any) -> CheckReport:
    wanted = {"split": "heldout", "seed": 1, "world": 0, **options}
    return await check_suite(suite, count=count, open_sandbox=open_sandbox, **wanted)


@anyio_test
async def test_ledger_proves_itself(open_sandbox: OpenSandbox) -> None:
    told: list[tuple[int, int]] = []
    report = await check(suite_of(), open_sandbox, 6, tell=lambda done, wanted: told.append((done, wanted)))
    assert report.failures == ()
    assert told == [(n, 6) for n in range(1, 7)]
    assert {row.oracle for row in report.rows} == {1.0}
    assert {row.noop for row in report.rows} == {0.0}
    ruled = [row for row in report.rows if row.triggers]
    assert 0 < len(ruled) < 6
    assert report.headroom == len(ruled) / 6
    assert report.sentence() == (
        f"ledger (heldout): 6 tasks, no problems; oracle minus naive: {100 * len(ruled) / 6:.0f} points"
    )


@anyio_test
async def test_with_many_worlds_every_type_of_rule_is_played_too(open_sandbox: OpenSandbox) -> None:
    report = await check(suite_of(), open_sandbox, 2, split="train", many_worlds=True)
    assert report.failures == ()
    assert len(report.drawn) == 2
    assert len({row.task_id.split("-")[1] for row in report.drawn}) == 2
    forced = {row.triggers[0].partition(":")[2] for row in report.rows if row.forced}
    assert forced == {name for name, kind in FAMILY.rules.items() if not kind.unseen}


@anyio_test
async def test_several_pieces_prove_themselves_and_each_is_tampered_with(open_sandbox: OpenSandbox) -> None:
    report = await check(suite_of(pieces=2), open_sandbox, 2)
    assert report.failures == ()
    assert report.families == ("ledger",)


class Lenient(WorldSuite):
    """Looks at nothing but the bytes behind `answer.json`, wherever they lie."""

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        strict = await super().verify(task, workspace, answer, attempt)
        found = (await workspace.exec("cat answer.json")).output
        right = strict.success or found == self.right
        self.right = found if strict.success else self.right
        return Verdict(score=float(right), success=right, feedback="No.")

    right = "nothing yet"


def alike(kind: type[WorldSuite], **spec: Any) -> WorldSuite:
    return kind("ledger", (FAMILY,), WorldSpec(**spec))


@anyio_test
async def test_an_unnoticed_edit_and_a_followed_link_are_failures(open_sandbox: OpenSandbox) -> None:
    failures = (await check(alike(Lenient), open_sandbox, count=1)).failures
    assert any("an edit of ledger is not detected" in failure for failure in failures)
    assert any("a link in place of answer.json is followed" in failure for failure in failures)


class Generous(WorldSuite):
    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        return Verdict(score=1.0, success=True)


@anyio_test
async def test_a_reward_for_nothing_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(alike(Generous), open_sandbox, count=1)).failures
    assert any("doing nothing scores 1.0, not 0" in failure for failure in failures)


class Ignorant(WorldSuite):
    def oracle(self, task: Task) -> tuple[Action, ...]:
        return (shell(FAMILY.command("missing.csv")),)


@anyio_test
async def test_an_oracle_that_fails_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(alike(Ignorant), open_sandbox, count=1)).failures
    assert any("the oracle scores 0.0, not 1" in failure for failure in failures)
    assert any("fails: " in failure and "missing.csv" in failure for failure in failures)


class Moody(WorldSuite):
    """Scores every other time."""

    explore = 0

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        self.explore += 1
        return Verdict(score=float(self.explore % 2), success=bool(self.explore % 2))


@anyio_test
async def test_a_changing_mind_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(alike(Moody), open_sandbox, count=1)).failures
    assert any("verifying twice" in failure for failure in failures)


class Trusting(WorldSuite):
    """Believes what is said."""

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        verdict = await super().verify(task, workspace, answer, attempt)
        believed = verdict.success and answer is not None
        return Verdict(score=float(believed), success=believed, feedback=verdict.feedback)


@anyio_test
async def test_a_verdict_by_the_words_of_the_answer_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(alike(Trusting), open_sandbox, count=1)).failures
    assert any("the verdict depends on the text of the answer" in failure for failure in failures)


class Tell(WorldSuite):
    """A hidden rule that the naive way follows."""

    def naive(self, task: Task) -> tuple[Action, ...]:
        return self.oracle(task)


@anyio_test
async def test_a_rule_that_costs_nothing_is_a_failure(open_sandbox: OpenSandbox) -> None:
    report = await check(alike(Tell), open_sandbox)
    assert [bool(row.failures) for row in report.rows] == [bool(row.triggers) for row in report.rows]
    assert too_little([report]) == ["ledger (heldout): the rules are worth 0 points; at least 30 are required"]


class Drifting(WorldSuite):
    loads = 0

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        self.loads += 1
        return super().load(split=split, count=count, seed=self.loads, world=world)


@anyio_test
async def test_tasks_that_change_between_loads_are_a_failure(open_sandbox: OpenSandbox) -> None:
    assert "loading twice gives different tasks" in (await check(alike(Drifting), open_sandbox, 1)).failures
    assert "loading twice gives different tasks" in static_checks(alike(Drifting), count=2).problems


@anyio_test
async def test_a_suite_without_an_oracle_cannot_be_proved(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "p"}')
    with pytest.raises(ConfigError, match="cannot be checked"):
        await check_suite(
            JsonlSuite(tmp_path / "a.jsonl"), split="train", count=1, seed=0, world=0, open_sandbox=open_sandbox
        )


# Families that break the law, by their verifier


class Gossip(Ledger):
    """Tells the first digits that the right answer alone has, on rejection."""

    async def judge(
        self, instance: Export, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        given = await super().judge(instance, rule, workspace, answer)
        right = {await self._told(instance, rule, workspace)} if given[-1].score < 1 else set()
        return [replace(each, ruled=False, reason=f"not {right}") if each.ruled and right else each for each in given]

    async def _told(self, instance: Export, rule: Rule | None, workspace: Workspace) -> str:
        """What the house tool makes of it by the rule."""
        (action,) = self.solve(instance, rule)
        done = await workspace.exec(action.arguments["command"].replace("answer.json", "/tmp/told.json"), fresh=True)
        return done.output.rpartition(" ")[2].strip()


@anyio_test
async def test_a_rejection_that_tells_the_answer_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(suite_of(Gossip(), plain=0), open_sandbox, count=3)).failures
    assert any("the rejection leaks part of the answer" in failure for failure in failures)
    assert any("the naive solution fails correct, which no rule decides" in failure for failure in failures)


class Chatty(Ledger):
    """Its symptom names the rule's literals."""

    async def judge(
        self, instance: Export, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        given = await super().judge(instance, rule, workspace, answer)
        hint = " ".join(str(value) for _, value in rule.literals) if rule else "wrong"
        return [replace(each, reason=hint) if each.ruled and each.reason else each for each in given]


@anyio_test
async def test_a_symptom_that_hints_at_the_rule_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(suite_of(Chatty(), plain=0), open_sandbox, count=2)).failures
    assert any("a reason hints at the rule" in failure for failure in failures)


class Careless(Ledger):
    """Any submission with a number that is not the obvious one is right where a rule holds."""

    async def judge(
        self, instance: Export, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        given = list(await super().judge(instance, rule, workspace, answer))
        if rule and all(each.score == 1 for each in given[:3]):
            obvious = (await super().judge(instance, None, workspace, answer))[-1]
            given[-1] = criterion("correct", obvious.score < 1, "the total is not right", ruled=True)
        return given


@anyio_test
async def test_a_verifier_that_takes_any_other_rule_is_a_failure(open_sandbox: OpenSandbox) -> None:
    failures = (await check(suite_of(Careless(), plain=0), open_sandbox, count=1)).failures
    told = re.compile(r"following \w+ \w+=.+ is accepted although [\w:-]+ \w+=.+ holds")
    assert any(told.search(failure) for failure in failures), failures


class Mute(Ledger):
    """Asks without a word about where the result goes."""

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Export:
        instance = super().instance(entity, site_config, draws)
        request = instance.request.replace("answer.json", "a file")
        return replace(instance, request=request, files={**instance.files, "ledger": "#!/bin/sh\n"})


@anyio_test
async def test_a_vague_task_is_refused(open_sandbox: OpenSandbox) -> None:
    failures = (await check(suite_of(Mute()), open_sandbox, count=1)).failures
    assert any("is vague: neither its prompt nor a file names all of answer.json" in failure for failure in failures)


class Quiz(WorldSuite):
    """Nothing to work with, and the answer alone is judged."""

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        return [Task(id=f"quiz-{n}", suite="quiz", prompt="What is the capital of France?") for n in range(count)]

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        return Verdict(score=float(answer == "Paris"), success=answer == "Paris")


@anyio_test
async def test_a_task_of_knowledge_only_is_refused(open_sandbox: OpenSandbox) -> None:
    failures = (await check(alike(Quiz), open_sandbox, count=1)).failures
    assert any("is knowledge only: it has no file, no page and no setup" in failure for failure in failures)


# Families that break the law, without a sandbox


def test_ledger_is_admitted_without_a_sandbox() -> None:
    static = static_checks(suite_of(), count=8)
    assert static.problems == ()
    assert static.distinct == 1.0
    assert static.templates["train"] > static.templates["validation"] > 0


class Few(Ledger):
    def __init__(self) -> None:
        super().__init__()
        self.rules = {"only": RuleType(("refunds do not count",), "Run it with --skip refunds.")}


def test_the_law_of_families_is_told_in_words() -> None:
    assert check_rule_types(Few()) == [
        "1 rule types; at least 8 are required",
        "0 unseen rule types; 2 to 4 are required",
        "rule only: 1 paraphrases; at least 3 are required",
        "rule only: the instruction must start in lower case and end without a full stop",
    ]


class Winking(WorldSuite):
    """Pads the prompt of ruled places by a blank, or by one for each letter of the rule's type."""

    by = "rule"

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        tasks = super().load(split=split, count=count, seed=seed, world=world)
        return [structs.replace(task, prompt=task.prompt + " " * self.pad(task)) for task in tasks]

    def pad(self, task: Task) -> int:
        site = task.truth["pieces"][0].site
        return int(site.ruled) if self.by == "ruled" else len(site.drawn.type)


@pytest.mark.parametrize(("by", "shown"), [("ruled", "whether a rule holds"), ("rule", "which rule holds")])
def test_a_prompt_that_depends_on_the_rule_is_a_leak_however_small(by: str, shown: str) -> None:
    suite = alike(Winking)
    vars(suite)["by"] = by
    (task,) = spread(suite, "train", 1, 0, 0)
    assert any(f"prompt shows {shown}" in problem for problem in differences(suite, task, 0))
    (honest,) = spread(suite_of(), "train", 1, 0, 0)
    assert not list(differences(suite_of(), honest, 0))


class Blabbing(Ledger):
    """Its README tells a rule, though of other values, in words that no other sentence has by accident."""

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Export:
        instance = super().instance(entity, site_config, draws)
        return replace(
            instance, files={**instance.files, "README": "Hint: run ./ledger sum with --drop colour=blue.\n"}
        )


def test_words_of_a_rule_in_a_file_are_a_leak_whatever_the_literals() -> None:
    suite = suite_of(Blabbing())
    (task,) = spread(suite, "train", 1, 0, 0)
    assert "ledger: file README contains the instruction of rule drop" in list(find_rule_leaks(task, suite.families))
    assert not list(find_rule_leaks(next(iter(spread(suite_of(), "train", 1, 0, 0))), (FAMILY,)))


class Copying(Ledger):
    """Asks in every split by the same sentence, with the words of the split in it."""

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Export:
        instance = super().instance(entity, site_config, draws)
        word = site_config.columns[0]
        return replace(instance, request=f"Kindly look after the {word} column too, will you. {instance.request}")


def test_a_template_that_two_splits_share_is_found_under_their_own_words() -> None:
    suite = suite_of(Copying())
    tasks = {split: list(spread(suite, split, 20, 0, 0)) for split in suite.splits}
    assert "train and heldout both ask 'kindly look after the ~ column too will you'" in shared_templates(tasks)
    same = {"train": tasks["train"], "heldout": tasks["train"]}
    assert any("train and heldout share the names" in problem for problem in check_splits_disjoint(same))


class Shouting(Ledger):
    """Names a file of the task in other capitals."""

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Export:
        instance = super().instance(entity, site_config, draws)
        return replace(instance, request=f"{instance.request} Leave {instance.inputs[-1].capitalize()} alone.")


def test_a_path_in_other_capitals_is_a_problem() -> None:
    (task,) = spread(suite_of(Shouting()), "train", 1, 0, 0)
    (problem,) = miscased(task)
    assert "the prompt says " in problem
    assert not list(miscased(next(iter(spread(suite_of(), "train", 1, 0, 0)))))
    assert any(
        "differs in case from a path of the task" in problem
        for problem in static_checks(suite_of(Shouting()), count=2).problems
    )


class Mumbling(Ledger):
    """A clause of its rules does not say which value it is about."""

    def __init__(self) -> None:
        super().__init__()
        drop = self.rules["drop"]
        vague = replace(drop, paraphrases=("one kind of entry is left out here", *drop.paraphrases[1:]))
        self.rules = {**self.rules, "drop": vague}


def test_a_clause_that_does_not_tell_two_rules_of_a_type_apart_is_a_problem() -> None:
    problems = static_checks(suite_of(Mumbling()), count=2).problems
    told = "rule drop: the paraphrase 'one kind of entry is left out here' is the same for different literals"
    assert any(told in problem for problem in problems)


class Repeating(Ledger):
    """Has one export for all."""

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Export:
        return super().instance(entity, site_config, Draws("the same"))


def test_tasks_that_are_like_another_are_counted() -> None:
    static = static_checks(suite_of(Repeating()), count=8)
    assert static.distinct < 0.99
    assert any("of the train tasks are duplicates" in problem for problem in static.problems)


class Single(Ledger):
    def kinds(self, site_config: SiteConfig) -> tuple[str, ...]:
        return ("latest",)


def test_a_place_that_cannot_drift_and_a_skill_that_does_not_tell_are_failures() -> None:
    problems = static_checks(suite_of(Single()), count=2).problems
    assert any("a site has only one rule" in problem for problem in problems)

    class Silent(Ledger):
        def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
            return "Ask somebody."

    problems = static_checks(suite_of(Silent()), count=2).problems
    assert any("rule drop: its skill body does not state it" in problem for problem in problems)


@anyio_test
async def test_the_rubric_of_a_check_counts_what_was_played(open_sandbox: OpenSandbox) -> None:
    report = await check(suite_of(plain=0), open_sandbox, 2)
    rubric = rubric_of([report])
    assert rubric.repeatability == (1.0, "6 of 6 repetitions gave the same result")
    assert rubric.error_scenarios == (1.0, "2 of 2 tasks fail at first, 2 are then fixed")
    assert rubric.tool_diversity.reason == "2 kinds of action, effectively 1.9: ledger, head"
    assert rubric.clarity.value == 1.0
