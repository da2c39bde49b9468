"""Sorts exchanges into conversations: the work itself, reviews of it, and everything else as child conversations."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hermes_lab.agent.endings import final_response, stop_of
from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.proxy.exchange import Asked, Exchange
from hermes_lab.types import Child, Compression, Generation, Message, Step, Trajectory, Usage
from hermes_lab.types.trajectory import StopReason

Key = tuple[object, ...]
Role = Literal["work", "review", "side"]
"""What a request is for, as far as it tells: the work, a review of it, or neither."""


@dataclass(frozen=True, eq=False)
class Node:
    """A request with its reply. `parent` is the one whose conversation it repeats; `keys` number its messages and the
    reply, equal ones alike; `prompts` are those of the harness that it has, `new` whether one is in its own part."""

    number: int
    exchange: Exchange
    generation: Generation
    role: Role
    keys: tuple[int, ...]
    parent: "Node | None"
    prompts: frozenset[str]
    new: bool
    tools: frozenset[str]
    children: list["Node"] = field(default_factory=list)

    @property
    def repeated(self) -> int:
        """How many of its first messages are its parent's."""
        return len(self.parent.keys) if self.parent else 0


class Arrived(NamedTuple):
    """A request: the keys of its messages, its place among all, the reply that it goes on from, and the prompts of the
    harness that are new in it."""

    role: Role
    keys: tuple[int, ...]
    place: int
    parent: Node | None
    prompts: frozenset[str]


@dataclass
class Thread:
    """One conversation. `begins` is the index of its first own message: a review continues the work before it."""

    begins: int = 0
    tools: tuple[dict[str, object], ...] = ()
    messages: list[Message] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    compressions: list[Compression] = field(default_factory=list)
    begun: float = math.inf
    ended: float = -math.inf
    _trace: TokenTrace = field(default_factory=TokenTrace)
    _seen: tuple[int, ...] = ()
    """The keys of the messages that the model saw last, and of its reply."""

    @property
    def seconds(self) -> float:
        """From its first request to its last reply."""
        return max(self.ended - self.begun, 0.0)

    @property
    def stop(self) -> StopReason:
        """How it ended, as far as its last reply tells."""
        if not self.steps:
            return "ended"
        step = self.steps[-1]
        message = self.messages[step.message]
        return "ended" if message.tool_calls else stop_of(message.content, step.finish_reason, self._names)

    @property
    def _names(self) -> frozenset[str]:
        return _names(self.tools)

    def trajectory(self, stop: StopReason, *, whole: bool = False) -> Trajectory:
        """Its own part, or the `whole` conversation, as records have them."""
        return Trajectory(
            messages=tuple(self.messages[0 if whole else self.begins :]),
            tools=self.tools,
            tool_format="native",
            stop_reason=stop,
            steps=tuple(self.steps),
            branches=self._trace.branches(),
            usage=self.usage,
            final_response=final_response(self.messages, self.steps, stop, self._names),
            compressions=tuple(self.compressions),
        )

    def add(self, node: Node) -> None:
        """Adds a request and its reply."""
        asked, generation, seconds = node.exchange.asked, node.generation, node.exchange.seconds
        known = len(self._seen)
        if node.keys[:known] == self._seen:
            self.messages += asked.messages[known:]
        else:
            self._rewrite(asked.messages, node.keys)
        self.tools = asked.tools or self.tools
        self.messages.append(generation.message)
        place = len(self.messages) - 1
        self.steps.append(Step(place, generation.finish_reason, generation.usage, seconds, generation.retries))
        self.usage += generation.usage
        self.begun, self.ended = min(self.begun, node.exchange.begun), max(self.ended, node.exchange.ended)
        self._trace.add(generation)
        self._seen = node.keys

    def _rewrite(self, messages: Sequence[Message], keys: Sequence[int]) -> None:
        """The program has rewritten its prompt, for example to shorten it: the new part replaces the old."""
        shared = _shared(self._seen, keys)
        start = min((shared, len(messages) - 1, *(done.start for done in self.compressions)))
        end = len(self.messages)
        self.compressions.append(Compression(at=end, start=start, end=end, room=0))
        self.messages += messages[start:]


@dataclass(frozen=True)
class Conversations:
    """The conversations of an episode."""

    main: Thread
    reviews: tuple[Thread, ...]
    others: tuple[Thread, ...]

    @property
    def children(self) -> tuple[Child, ...]:
        """What is neither the work nor its last review: titles, summaries, child agents, earlier reviews."""
        earlier = [(thread, _EARLIER_REVIEW) for thread in self.reviews[:-1]]
        return tuple(
            Child(goal, 1, thread.trajectory(thread.stop, whole=True), thread.seconds)
            for thread, goal in (*earlier, *((thread, _goal(thread.messages)) for thread in self.others))
        )

    @property
    def work_usage(self) -> Usage:
        """The tokens of the work, with its side conversations."""
        return sum((thread.usage for thread in self.others), self.main.usage)

    @property
    def review_usage(self) -> Usage:
        """The tokens of all reviews."""
        return sum((thread.usage for thread in self.reviews), Usage())


_EARLIER_REVIEW = "review of an earlier submission"


class Sorter:
    """Sorts the exchanges of an episode.

    A request goes on with the conversation that it repeats up to a reply. The work begins with the first request that
    has a prompt of the harness, and tools if any request has some; `prompts` may grow. A conversation is a review from
    the message on that `is_review` accepts. Everything else is a side conversation.

    Where a program rewrites the prompt of the work, such as to summarise it, the work goes on with the new prompt. A
    request is no such rewriting if the program later goes on with the old one. So whether a request belongs to the work
    may be known only later: `arrive` tells what it looks like, `conversations` what it was.
    """

    def __init__(self, prompts: Sequence[str], is_review: Callable[[str], bool]) -> None:
        self._prompts = prompts
        self._is_review = is_review
        self._numbers: dict[Key, int] = {}
        self._unreadable: dict[tuple[str, ...], int] = {}
        """The keys of replies with a call that could not be read, by their calls' ids: programs write it otherwise."""
        self._tree: dict[tuple[int, int], int] = {}
        """All sequences of messages: from the place of one and the key of the next message to the place of both."""
        self._replies: dict[int, Node] = {}
        """The replies, by the place of the conversation that ends with them."""
        self._nodes: list[Node] = []
        self._first: Node | None = None
        self._has_tools = False
        self._found: Conversations | None = None

    def arrive(self, asked: Asked) -> Arrived:
        """A request as it looks when it arrives."""
        keys = self._keys(asked.messages)
        place, parent = 0, None
        for key in keys:
            place = self._next(place, key)
            parent = self._replies.get(place, parent)
        texts = list(_requests(asked.messages[len(parent.keys) :] if parent else asked.messages))
        given = filter(str.strip, self._prompts)
        prompts = frozenset(prompt for prompt in given if any(prompt.strip() in text for text in texts))
        role: Role = "side"
        if (parent and parent.role == "review") or any(map(self._is_review, texts)):
            role = "review"
        elif prompts or (parent.role == "work" if parent else self._begins_alike(asked, keys)):
            role = "work"
        self._has_tools |= role == "work" and bool(asked.tools)  # whether it is answered or not
        return Arrived(role, keys, place, parent, prompts)

    def is_main(self, asked: Asked, arrived: Arrived) -> bool:
        """Whether a request is the work itself, as far as is known: side requests, such as for a title, have no tools
        where the work has some."""
        return arrived.role == "work" and (bool(asked.tools) or not self._has_tools)

    def add(self, number: int, exchange: Exchange, arrived: Arrived) -> None:
        """Adds an exchange that was answered, the `number`th that arrived."""
        asked, generation = exchange.asked, exchange.generation
        assert generation is not None
        role, keys, place, parent, new = arrived
        prompts = parent.prompts | new if parent else new
        reply = self._number(key_of(generation.message))
        if any(call.error for call in generation.message.tool_calls):
            self._unreadable[_ids(generation.message)] = reply
        node = Node(number, exchange, generation, role, (*keys, reply), parent, prompts, bool(new), _names(asked.tools))
        self._replies.setdefault(self._next(place, reply), node)
        if parent:
            parent.children.append(node)
        if role == "work" and asked.tools and self._first is None:
            self._first = node
        self._nodes.append(node)
        self._found = None

    def conversations(self) -> Conversations:
        """The conversations so far. It does not depend on the order in which unrelated requests arrived."""
        if self._found is None:
            nodes = sorted(self._nodes, key=lambda node: node.number)
            path = _path(nodes, self._has_tools)
            main = Thread()
            for node in path:
                main.add(node)
            reviews, others = _threads(nodes, path)
            self._found = Conversations(main, tuple(reviews), tuple(others))
        return self._found

    def _number(self, key: Key) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _keys(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return tuple(
            found
            if message.tool_calls and (found := self._unreadable.get(_ids(message))) is not None
            else self._number(key_of(message))
            for message in messages
        )

    def _next(self, place: int, key: int) -> int:
        return self._tree.setdefault((place, key), len(self._tree) + 1)

    def _begins_alike(self, asked: Asked, keys: Sequence[int]) -> bool:
        """Whether a request has the first message and the tools of the work: a summary may lack the prompt."""
        first = self._first
        return first is not None and keys[:1] == first.keys[:1] and _names(asked.tools) == first.tools


def _path(nodes: Sequence[Node], with_tools: bool) -> list[Node]:
    """The requests of the work, in order. `with_tools`: it has tools, so what has none is a side request."""
    work = [node for node in nodes if node.role == "work" and (node.tools or not with_tools)]
    path: list[Node] = []
    for node in work:
        if not path or (node.parent is path[-1] and path[-1].tools <= node.tools):
            path.append(node)
        elif not _goes_on(path[-1], node.number) and path[-1].tools <= node.tools:
            _take(path, node)
    return path


def _goes_on(head: Node, after: int) -> bool:
    """Whether the program goes on with this reply after the request with that number: that was a side request."""
    return any(node.number > after and node.role == "work" and head.tools <= node.tools for node in head.children)


def _take(path: list[Node], node: Node) -> None:
    """Adds a request that does not repeat the last reply of the work, if it belongs to the work nevertheless."""
    head = path[-1]
    if node.parent is head.parent and node.keys[:-1] == head.keys[:-1]:  # asked again, as the reply was lost
        path[-1] = node
    elif node.parent in path:
        assert node.parent is not None
        dropped = path[path.index(node.parent) + 1 :]
        if all(not _matters(each) for each in dropped):  # the program asked something in passing
            del path[-len(dropped) :]
        path.append(node)
    elif node.parent is None and _replaces(head, node):
        path.append(node)


def _matters(node: Node) -> bool:
    """Whether a request brought the work forward: it was about a call, led to one, or has a prompt of the harness."""
    about = node.parent.generation.message.tool_calls if node.parent else ()
    return bool(about or node.generation.message.tool_calls or node.new)


def _replaces(head: Node, node: Node) -> bool:
    """Whether a request that repeats no reply is the work with a rewritten prompt."""
    if node.prompts - head.prompts:  # the next submission, in a conversation of its own
        return True
    unfinished = bool(head.generation.message.tool_calls)
    return unfinished or (node.new and _shared(head.keys, node.keys) > 0)


def _threads(nodes: Iterable[Node], path: Iterable[Node]) -> tuple[list[Thread], list[Thread]]:
    """The reviews and the side conversations, each in the order of their first requests."""
    reviews, others = list[Thread](), list[Thread]()
    last: dict[Node, Thread] = {}
    main = set(path)
    for node in nodes:
        if node in main:
            continue
        parent = node.parent
        goes_on = parent and (parent.role == "review") == (node.role == "review")
        thread = last.pop(parent, None) if parent and goes_on else None
        if thread is None:
            thread = Thread(begins=node.repeated)
            (reviews if node.role == "review" else others).append(thread)
        thread.add(node)
        last[node] = thread
    return reviews, others


def key_of(message: Message) -> Key:
    """What identifies a message however a program repeats it: ids, reasoning and outer white space may differ."""
    if message.results:
        return ("tool", *(result.content.strip() for result in message.results))
    content = _answer_of(message) if message.role == "assistant" else message.content.strip()
    calls = (
        (call.name, call.raw if call.error else json.dumps(call.arguments, sort_keys=True))
        for call in message.tool_calls
    )
    return (message.role, content, *calls)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first messages are the same."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _ids(message: Message) -> tuple[str, ...]:
    return tuple(call.id for call in message.tool_calls)


def _answer_of(message: Message) -> str:
    return split_reasoning(message.content).answer.strip()


def _requests(messages: Iterable[Message]) -> Iterator[str]:
    """What the user says in them."""
    return (message.content for message in messages if message.role == "user" and not message.results)


def _names(tools: Iterable[Mapping[str, object]]) -> frozenset[str]:
    return frozenset(str(tool["function"]["name"]) for tool in tools)  # type: ignore[index]


def _goal(messages: Sequence[Message]) -> str:
    texts = list(_requests(messages))
    return texts[-1][:500] if texts else ""
