"""Conversations are found in the exchanges of a program, however it asks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.proxy.conversations import Conversations, Sorter, Thread, key_of
from hermes_lab.proxy.exchange import Asked, Exchange
from hermes_lab.transcript import visible
from hermes_lab.types import Generation, Message, ToolCall, ToolResult, Usage

TOOLS = ({"type": "function", "function": {"name": "sh", "description": "", "parameters": {}}},)
MEMORY = ({"type": "function", "function": {"name": "memory", "description": "", "parameters": {}}},)
TASK, FEEDBACK, REVIEW = "Count the desk.", "Rejected: count again.", "REVIEW it"


@dataclass
class Agent:
    """A program: asks, and keeps its own conversation."""

    exchanges: list[Exchange] = field(default_factory=list)
    sent: list[tuple[Message, ...]] = field(default_factory=list)

    def ask(self, messages: Sequence[Message], reply: Message, tools: Any = TOOLS) -> list[Message]:
        asked = Asked(tuple(messages), tools, stream=False)
        exchange = Exchange(asked, 0.0, 1.0)
        exchange.generation = Generation(reply, "tool_calls" if reply.tool_calls else "stop", Usage(5, 2))
        self.exchanges.append(exchange)
        self.sent.append(tuple(messages))
        return [*messages, reply]

    def work(self, messages: Sequence[Message], calls: int, answer: str = "Done.", tools: Any = TOOLS) -> list[Message]:
        for number in range(calls):
            call = ToolCall(f"c{len(messages)}", "sh", {"command": f"step {number}"})
            messages = self.ask(messages, Message(role="assistant", content="", tool_calls=(call,)), tools)
            result = ToolResult(call.id, "sh", f"output {number}")
            messages = [
                *messages,
                Message(role="tool", content=result.content, results=(result,), tool_call_id=call.id),
            ]
        return self.ask(messages, Message(role="assistant", content=answer), tools)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def begin() -> list[Message]:
    return [Message(role="system", content="You are an agent."), user(f"<reminder>x</reminder>\n{TASK}")]


def conversations(
    exchanges: Sequence[Exchange], prompts: Sequence[str], is_review: Callable[[str], bool]
) -> Conversations:
    """The conversations in exchanges, in the order in which they were asked. Those without a reply are left out."""
    sorter = Sorter(prompts, is_review)
    for number, exchange in enumerate(exchanges):
        if exchange.generation:
            sorter.add(number, exchange, sorter.arrive(exchange.asked))
    return sorter.conversations()


def found(agent: Agent) -> Conversations:
    return conversations(agent.exchanges, [TASK, FEEDBACK], lambda text: text.startswith("REVIEW"))


def test_the_work_a_review_a_title_and_a_subagent() -> None:
    agent = Agent()
    agent.ask([user(f"A title for: {TASK}")], Message(role="assistant", content="Desk"), tools=())
    told = agent.work(begin(), 2)
    agent.work([*told, user(REVIEW)], 1, "Saved.")
    agent.work([Message(role="system", content="You are a helper."), user("look around")], 1, "Seen.")
    agent.work([*told, user(FEEDBACK)], 1, "Again.")
    agent.work([*told, user(FEEDBACK), *agent.exchanges[-1].asked.messages[len(told) + 1 :]], 0, "Again.")
    sorted_ = found(agent)
    texts = [m.content for m in sorted_.main.messages if m.role in ("user", "assistant") and m.content]
    assert texts[:3] == [begin()[1].content, "Done.", FEEDBACK]
    assert sorted_.main.stop == "answered"
    (review,) = sorted_.reviews
    assert [m.content for m in review.trajectory("answered").messages if m.content] == [REVIEW, "output 0", "Saved."]
    assert review.trajectory("answered").steps[-1].message == len(review.messages) - 1
    assert [child.goal for child in sorted_.children] == [f"A title for: {TASK}", "look around", FEEDBACK]
    assert sorted_.main.trajectory("answered").final_response == "Again."


def test_what_a_program_changes_in_its_own_echo_is_the_same_conversation() -> None:
    agent = Agent()
    thought = Message(role="assistant", content="<think>hm</think> Done. ", reasoning="hm", provider_fields={"x": 1})
    told = agent.ask(begin(), thought)
    echoed = msgspec.structs.replace(told[-1], content="Done.", reasoning="", provider_fields={})
    agent.work([*told[:-1], echoed, user(FEEDBACK)], 0)
    main = found(agent).main
    assert (len(main.messages), main.compressions) == (5, [])
    assert main.messages[2] == thought


def test_ended_before_an_answer() -> None:
    agent = Agent()
    agent.ask(begin(), Message(role="assistant", tool_calls=(ToolCall("c", "sh", {}),)))
    main = found(agent).main
    assert main.stop == "ended"
    assert main.trajectory(main.stop).final_response is None
    assert found(Agent()).main.stop == "ended"


def test_a_continuation_by_the_programs_own_message_stays_with_the_work() -> None:
    agent = Agent()
    told = agent.work(begin(), 1, "")
    agent.work([*told, user("Please continue.")], 1, "Done.")
    sorted_ = found(agent)
    assert sorted_.main.stop == "answered"
    assert (sorted_.reviews, sorted_.others) == ((), ())


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.lists(st.integers(0, 2), min_size=5, max_size=5))
def test_whatever_is_rewritten_what_was_sent_can_be_rebuilt(cuts: list[int], calls: list[int]) -> None:
    """A program shortens its prompt again and again: it keeps some first messages and goes on with a summary."""
    agent = Agent()
    told = agent.work(begin(), calls[0])
    for number, cut in enumerate(cuts):
        kept = told[: 1 + min(cut, len(told) - 1)]
        told = agent.work([*kept, user(f"Summary {number} of: {TASK}")], calls[number + 1])
    main = found(agent).main
    assert len(main.steps) == len(agent.exchanges)
    for step, sent in zip(main.steps, agent.sent, strict=True):
        before = [c for c in main.compressions if c.at < step.message]
        seen = visible(main.messages[: step.message], before)
        assert list(map(key_of, seen)) == list(map(key_of, sent))


def test_a_repeated_request_replaces_its_first_reply() -> None:
    agent = Agent()
    agent.ask(begin(), Message(role="assistant", content="cut"))
    agent.work(begin(), 1)
    main = found(agent).main
    assert [step.message for step in main.steps] == sorted({step.message for step in main.steps})
    assert main.messages[-1].content == "Done."


def texts(thread: Thread) -> list[str]:
    """What was said in its own part, calls as their commands."""
    own = thread.messages[thread.begins :]
    return [" ".join([m.content, *(str(c.arguments["command"]) for c in m.tool_calls)]).strip() for m in own]


def check_sent(agent: Agent, main: Thread) -> None:
    """What was sent before each step of the work can be rebuilt."""
    sent = {tuple(map(key_of, messages)) for messages in agent.sent}
    for step in main.steps:
        before = [c for c in main.compressions if c.at < step.message]
        seen = visible(main.messages[: step.message], before)
        assert tuple(map(key_of, seen)) in sent


def test_a_review_that_repeats_its_request_has_all_its_turns() -> None:
    agent = Agent()
    told = agent.work(begin(), 1)
    reviewed = agent.work([*told, user(REVIEW)], 2, "Saved.")
    agent.work([*reviewed, user("Anything else?")], 0, "No.")
    sorted_ = found(agent)
    (review,) = sorted_.reviews
    assert texts(review) == [REVIEW, "step 0", "output 0", "step 1", "output 1", "Saved.", "Anything else?", "No."]
    assert (len(sorted_.main.steps), sorted_.children) == (2, ())


def test_a_review_in_the_same_conversation_is_not_the_work() -> None:
    """The lab asks for a review after the verdict, and the program goes on with its one conversation."""
    agent = Agent()
    told = agent.work(begin(), 0)
    agent.work([*told, user(f"Accepted.\n\n{REVIEW}")], 1, "Saved.")
    sorted_ = conversations(agent.exchanges, [TASK], lambda text: REVIEW in text)
    assert (len(sorted_.main.steps), len(sorted_.reviews[0].steps)) == (1, 2)
    assert sorted_.main.trajectory("answered").final_response == "Done."


def test_each_review_of_several_stands_alone() -> None:
    agent = Agent()
    told = agent.work(begin(), 1)
    agent.work([*told, user(REVIEW)], 1, "First.")
    told = agent.work([*told, user(FEEDBACK)], 1, "Again.")
    agent.work([*told, user(REVIEW)], 0, "Second.")
    sorted_ = found(agent)
    assert [texts(review)[-1] for review in sorted_.reviews] == ["First.", "Second."]
    assert [child.goal for child in sorted_.children] == ["review of an earlier submission"]
    assert texts(sorted_.main)[-1] == "Again."


def test_tokens_of_all_reviews_are_the_reviews_and_those_of_side_requests_the_works() -> None:
    agent = Agent()  # each reply is 5 prompt tokens and 2 completion tokens
    told = agent.work(begin(), 1)
    agent.work([*told, user(REVIEW)], 0, "First.")
    agent.ask([user("A title, please.")], Message(role="assistant", content="Desk"), ())
    agent.work([*told, user(FEEDBACK)], 0, "Again.")
    sorted_ = found(agent)
    work, reviews = len(sorted_.main.steps), sum(len(review.steps) for review in sorted_.reviews)
    assert (work, reviews) == (3, 1)
    assert sorted_.work_usage == Usage(5 * (work + 1), 2 * (work + 1))
    assert sorted_.review_usage == Usage(5 * reviews, 2 * reviews)


def test_a_lost_reply_is_no_part_of_the_work() -> None:
    """The program did not get the reply, and asked the same again."""
    agent = Agent()
    agent.ask(begin(), Message(role="assistant", content="lost"))
    agent.work(begin(), 1)
    sorted_ = found(agent)
    assert texts(sorted_.main) == [*(m.content for m in begin()), "step 0", "output 0", "Done."]
    assert sorted_.main.compressions == []
    assert [child.trajectory.final_response for child in sorted_.children] == ["lost"]


def test_what_the_program_asks_in_passing_is_no_part_of_the_work() -> None:
    """It asks for something else by the same tools, and goes on from before."""
    agent = Agent()
    told = agent.work(begin(), 1)
    agent.work([*told, user("Suggest what the user may say next.")], 0, "Count again?")
    agent.work([*told, user(FEEDBACK)], 1, "Again.")
    sorted_ = found(agent)
    assert texts(sorted_.main)[-4:] == [FEEDBACK, "step 0", "output 0", "Again."]
    assert sorted_.main.compressions == []
    assert [child.goal for child in sorted_.children] == ["Suggest what the user may say next."]


def test_a_side_request_with_fewer_tools_is_no_part_of_the_work() -> None:
    agent = Agent()
    told = agent.work(begin(), 1)
    agent.ask([*told, user("Who speaks next?")], Message(role="assistant", content="user"), tools=())
    agent.work([*told, user("Save your notes.")], 1, "Saved.", tools=MEMORY)
    sorted_ = found(agent)
    assert texts(sorted_.main)[-1] == "Done."
    assert [child.goal for child in sorted_.children] == ["Who speaks next?", "Save your notes."]


def test_tools_may_be_added() -> None:
    agent = Agent()
    told = agent.work(begin(), 1, "")
    agent.work([*told, user("Go on.")], 1, "Done.", tools=(*TOOLS, *MEMORY))
    assert texts(found(agent).main)[-1] == "Done."


def test_a_subagent_that_is_told_the_task_is_no_part_of_the_work() -> None:
    """It has the same tools and the prompt of the harness; but the work goes on from where it was."""
    agent = Agent()
    for system in ("You are an agent.", "You are a helper."):
        agent = Agent()
        call = ToolCall("d", "sh", {"command": "delegate"})
        told = agent.ask(begin(), Message(role="assistant", tool_calls=(call,)))
        agent.work([Message(role="system", content=system), user(f"Help with: {TASK}")], 2, "Seen.")
        result = ToolResult("d", "sh", "Seen.")
        agent.work([*told, Message(role="tool", content="Seen.", results=(result,))], 1, "All done.")
        sorted_ = found(agent)
        assert len(sorted_.main.steps) == 3
        assert sorted_.main.trajectory("answered").final_response == "All done."
        assert sorted_.main.compressions == []
        assert [child.goal for child in sorted_.children] == [f"Help with: {TASK}"]


def test_a_summary_without_the_prompt_is_the_work() -> None:
    """Some programs keep a summary only, under another system prompt that has new notes."""
    for system in ("You are an agent.", f"You are an agent. Notes: x. {TASK}"):
        agent = Agent()
        call = ToolCall("c", "sh", {"command": "begin"})
        agent.ask(begin(), Message(role="assistant", tool_calls=(call,)))
        summary = "<state>counted one</state>" if system == "You are an agent." else f"<state>{TASK}</state>"
        agent.work([Message(role="system", content=system), user(summary)], 1, "All done.")
        main = found(agent).main
        assert (len(main.steps), len(main.compressions)) == (3, 1)
        check_sent(agent, main)


def test_a_new_conversation_for_each_submission_is_the_work() -> None:
    agent = Agent()
    agent.work(begin(), 1)
    agent.work([begin()[0], user(f"{TASK}\n\nAn earlier attempt was rejected: {FEEDBACK}")], 1, "Again.")
    main = found(agent).main
    assert (len(main.steps), texts(main)[-1]) == (4, "Again.")
    check_sent(agent, main)


def test_what_comes_after_the_answer_in_a_conversation_of_its_own_is_not_the_work() -> None:
    agent = Agent()
    agent.work(begin(), 1)
    agent.work([Message(role="system", content="Summarise sessions."), user(f"Session: {TASK}")], 0, "A session.")
    sorted_ = found(agent)
    assert texts(sorted_.main)[-1] == "Done."
    assert len(sorted_.children) == 1


def test_a_call_that_could_not_be_read_is_recognised_however_it_is_repeated() -> None:
    agent = Agent()
    broken = ToolCall("c", "sh", error="invalid tool call: not JSON", raw='{"command": ')
    told = agent.ask(begin(), Message(role="assistant", content="Hm.", tool_calls=(broken,)))
    mended = msgspec.structs.replace(told[-1], tool_calls=(ToolCall("c", "sh", {}),))
    result = ToolResult("c", "sh", "no command")
    agent.work([*told[:-1], mended, Message(role="tool", content="no command", results=(result,))], 0)
    main = found(agent).main
    assert (len(main.steps), main.compressions) == (2, [])


def test_a_program_without_tools_works_by_text() -> None:
    agent = Agent()
    agent.work(begin(), 0, "```sh\nls\n```", tools=())
    agent.work([*agent.sent[-1], Message(role="assistant", content="```sh\nls\n```"), user("a.txt")], 0, "Done.", ())
    main = found(agent).main
    assert (len(main.steps), main.stop) == (2, "answered")


def test_endings_are_those_of_the_own_loop() -> None:
    for content, ending, stop, answer in (
        ("<think>hm</think> Done.", "stop", "answered", "Done."),
        ("<think>hm", "stop", "empty", None),
        ("Cut", "length", "length", None),
        ("", "content_filter", "filtered", None),
        ("No.", "refusal", "refused", None),
        ('<tool_call>{"name": "sh", "arguments": {}}</tool_call>', "stop", "unparsed", None),
    ):
        agent = Agent()
        agent.ask(begin(), Message(role="assistant", content=content))
        reply = agent.exchanges[0].generation
        agent.exchanges[0].generation = msgspec.structs.replace(reply, finish_reason=ending)  # type: ignore[type-var]
        main = found(agent).main
        assert main.stop == stop
        told = main.trajectory(main.stop).final_response
        assert (told.strip() if told else told) == answer


def test_token_ids_join_over_turns() -> None:
    agent = Agent()
    told = agent.work(begin(), 1)
    for number, exchange in enumerate(agent.exchanges):
        prompt = tuple(range(3 + 4 * number))
        sampled = (3 + 4 * number, 4 + 4 * number)
        exchange.generation = msgspec.structs.replace(
            exchange.generation,  # type: ignore[type-var]
            prompt_token_ids=prompt,
            token_ids=sampled,
            logprobs=(-0.5, -0.5),
        )
    (branch,) = found(agent).main.trajectory("answered").branches
    assert (branch.token_ids, sum(branch.mask)) == (tuple(range(9)), 4)
    assert len(told) == 5


@dataclass
class Plan:
    """A conversation that asks one request after another, and what it is."""

    exchanges: list[Exchange]
    kind: str


@st.composite
def episodes(draw: st.DrawFn) -> tuple[Agent, list[Plan]]:
    """The work with compressions, lost replies and reviews, and unrelated conversations beside it."""
    agent, plans = Agent(), []
    told: list[Message] = list(begin())
    for number in range(draw(st.integers(1, 3))):
        told = agent.work(told, draw(st.integers(0, 3)), f"Answer {number}.")
        what = draw(st.sampled_from(["feedback", "review", "compress", "lost", "own"]))
        if what == "review":
            agent.work([*told, user(REVIEW)], draw(st.integers(0, 2)), "Saved.")
        if what == "compress":
            kept = told[: draw(st.integers(1, len(told)))]
            told = agent.work([*kept, user(f"Summary {number}. {TASK}")], draw(st.integers(0, 2)), "Summed.")
        if what == "lost":
            agent.ask([*told, user(f"{FEEDBACK} {number}")], Message(role="assistant", content=f"lost {number}"))
        told = [*told, user("Go on." if what == "own" else f"{FEEDBACK} {number}")]
    agent.work(told, 1, "The end.")
    plans.append(Plan(list(agent.exchanges), "work"))
    for number in range(draw(st.integers(0, 3))):
        side = Agent()
        if draw(st.booleans()):
            side.work([Message(role="system", content="Help."), user(f"part {number}")], draw(st.integers(0, 2)))
        else:
            side.ask([user(f"Title {number} for {TASK}")], Message(role="assistant", content="T"), tools=())
        plans.append(Plan(side.exchanges, "side"))
    return agent, plans


@given(episodes(), st.randoms(use_true_random=False))
def test_what_is_found_does_not_depend_on_what_arrives_beside(episode: tuple[Agent, list[Plan]], random: Any) -> None:
    agent, plans = episode
    alone = conversations(plans[0].exchanges, [TASK, FEEDBACK], lambda text: text.startswith("REVIEW"))
    check_sent(agent, alone.main)
    for first in (True, False):
        sorter = Sorter([TASK, FEEDBACK], lambda text: text.startswith("REVIEW"))
        waiting = [list(plan.exchanges) for plan in plans]
        if first:  # side requests before the work
            waiting.reverse()
        arrived: dict[int, Any] = {}
        number = 0
        while any(waiting):
            open_ = [n for n, left in enumerate(waiting) if left]
            at = open_[0] if first else random.choice(open_)
            if at not in arrived:  # it asks; others may ask and be answered before it is
                arrived[at] = (number, sorter.arrive(waiting[at][0].asked))
                number += 1
            else:
                placed, how = arrived.pop(at)
                sorter.add(placed, waiting[at].pop(0), how)
        sorted_ = sorter.conversations()
        for now, then in zip((sorted_.main, *sorted_.reviews), (alone.main, *alone.reviews), strict=True):
            assert now.trajectory("ended") == then.trajectory("ended")
        beside = [plan for plan in plans if plan.kind == "side"]
        assert len(sorted_.others) == len(alone.others) + len(beside)
        steps = sum(len(thread.steps) for thread in (sorted_.main, *sorted_.reviews, *sorted_.others))
        assert steps == sum(len(plan.exchanges) for plan in plans)  # every reply is in one conversation


def test_a_review_of_a_side_conversation_is_a_review() -> None:
    agent = Agent()
    agent.work(begin(), 0)
    side = agent.work([Message(role="system", content="Help."), user("look around")], 1, "Seen.")
    agent.work([*side, user(REVIEW)], 0, "Saved.")
    sorted_ = found(agent)
    assert [texts(review) for review in sorted_.reviews] == [[REVIEW, "Saved."]]
    assert [texts(other)[-1] for other in sorted_.others] == ["Seen."]
