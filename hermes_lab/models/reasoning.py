"""Separates a reply's answer from its reasoning; no other module does.

Many endpoints leave a model's reasoning in its text, between model-specific tags. Tags are recognised anywhere:

- `<think>hm</think> 4`: the text between the tags is reasoning.
- `hm</think> 4`: the chat template wrote the opening tag, so everything before the closing tag is reasoning.
- `<think>hm`: not closed, so the model was still thinking. There is no answer, whatever precedes the tag.

A tag quoted as code (in a backtick span or a closed fence, outside of reasoning) is ordinary text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_NAMES = (
    r"(?:[\w.-]+:)?(?:think|thinking|thought|thoughts|reasoning|longcat_think|internal_monologue)(?:[_-][a-z0-9]+)?"
)
OPENING = re.compile(
    rf"<{_NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷|<\|(?:begin_of_thought|START_THINKING|thinking|think)\|>"
    r"|<unused94>(?:thought\n)?|<\|channel>thought\n?|(?:<\|start\|>assistant)?<\|channel\|>\s*analysis\b[^<]*<\|message\|>"
    r"|\A\s*(?:Here's|Here is) my thought process:",
    re.IGNORECASE,
)
"""Opening tags: Qwen, DeepSeek and most others; Mistral; Kimi-VL; OpenThinker, Cohere; MedGemma; Gemma; gpt-oss;
Granite."""
CLOSING = re.compile(
    rf"</{_NAMES}\s*>|\[/THINK\]|◁/think▷|<\|(?:end_of_thought|END_THINKING|/thinking|/think)\|>|<unused95>|<channel\|>"
    r"|(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>\s*final\b[^<]*<\|message\|>"
    r"|^(?:Here's|Here is) my response:",
    re.IGNORECASE | re.MULTILINE,
)
_TAG = re.compile(f"{OPENING.pattern}|{CLOSING.pattern}", re.IGNORECASE | re.MULTILINE)
_HARMONY_AS_TEXT = re.compile(r"\A\s*analysis(?=[A-Z\s]).*?assistantfinal", re.DOTALL)
"""Matches gpt-oss behind a server that drops the special tokens between its channels."""
_FENCE = re.compile(r"[ \t]*+(?P<fence>```+|~~~+)(?P<rest>.*)")
_TICKS = re.compile(r"(?<!`)(?P<tick>`++)[^`\n]++(?P=tick)(?!`)")
_WRAPPER = re.compile(r"\s*<(?P<tag>answer|response)>(?P<inside>.*?)(?:</(?P=tag)>\s*)?\Z", re.DOTALL | re.IGNORECASE)
_MARKED_ANSWER = re.compile(
    r"<\|(?:START_RESPONSE|START_TEXT|END_RESPONSE|END_TEXT|begin_of_solution|end_of_solution)\|>"
)
END_TOKENS = (
    r"<\|(?:im_end|eot_id|eom_id|end|return|endoftext|end_of_text|END_OF_TURN_TOKEN|eot|user|observation)\|>"
    r"|</s>|<end_of_turn>|<turn\|>|<eos>|\[e~\[|<｜end▁of▁sentence｜>|\[EOS\]"
)
"""End-of-turn tokens that some servers leave in the text. Part of a regular expression."""
_LAST_TOKEN = re.compile(rf"(?:{END_TOKENS})\Z")
_LONGEST_TOKEN = 40


class SplitText(NamedTuple):
    """The text without its reasoning, the reasoning, and whether the reasoning was still `open` at the end."""

    answer: str
    reasoning: str
    open: bool = False


def split_reasoning(text: str, prompts: Iterable[str] = ()) -> SplitText:
    """Splits a complete reply into answer and reasoning. A text without tags is its own answer, unchanged.

    If the reasoning is still open at the end, the answer is empty. Tags that a template puts around the answer
    (`<answer>`) are removed, unless one of the `prompts` asks for them.
    """
    if (flat := _HARMONY_AS_TEXT.match(text)) and not OPENING.search(text):
        return SplitText(_clean(text[flat.end() :], prompts), text[: flat.end() - len("assistantfinal")].strip())
    kept: list[str] = []
    thoughts: list[str] = []
    at = 0
    inside = False
    for tag in tags(text):
        if inside and tag.opens:
            continue
        before, at, opened = text[at : tag.start], tag.end, inside
        inside = tag.opens
        if tag.opens:
            kept.append(before)
        elif opened:
            thoughts.append(before.strip())
        else:  # closes reasoning that the prompt opened
            thoughts.append("".join([*kept, before]).strip())
            kept = []
    if inside:
        thoughts.append(text[at:].strip())
        kept = []
    elif not at:
        return SplitText(without_end_tokens(text), "")
    else:
        kept.append(text[at:])
    return SplitText(_clean("".join(kept), prompts), "\n".join(filter(None, thoughts)), inside)


def separate_reasoning(content: str, reasoning: str) -> str:
    """The reasoning that is not part of the message's `content`: the endpoint returned it in a separate field."""
    return "" if not reasoning or reasoning in content or split_reasoning(content).reasoning == reasoning else reasoning


class Tag(NamedTuple):
    """A reasoning tag: its position, and whether it opens."""

    start: int
    end: int
    opens: bool


def tags(text: str, at: int = 0, until: int | None = None) -> Iterator[Tag]:
    """The tags from `at` up to `until`.

    Tags quoted as code are skipped if they would open reasoning, or close reasoning that was not opened.
    """
    quoted: Iterator[tuple[int, int]] | None = None
    start, end = 0, 0
    inside = False
    for found in _TAG.finditer(text, at, len(text) if until is None else until):
        opens = OPENING.fullmatch(text, *found.span()) is not None
        if not inside:
            if not opens and found.group().endswith(":"):  # Granite's tag is an ordinary sentence
                continue
            quoted = quoted or _quoted(text, at)
            while end <= found.start() and (code := next(quoted, None)):
                start, end = code
            if start <= found.start() < end:
                continue
        inside = opens
        yield Tag(*found.span(), opens)


def _quoted(text: str, at: int) -> Iterator[tuple[int, int]]:
    """The ranges quoted as code from `at` on: backtick spans and closed fences.

    Reasoning may contain half a fence, so a fence with only a closing tag does not count: taking reasoning for an
    answer would be worse than the reverse.
    """
    fence, begun = "", 0
    for line in text[at:].splitlines(keepends=True):
        end = at + len(line)
        found = _FENCE.match(line)
        if fence:
            if found and found["fence"].startswith(fence) and not found["rest"].strip():
                if OPENING.search(text, begun, end) or not CLOSING.search(text, begun, end):
                    yield begun, end
                fence = ""
        elif found:
            fence, begun = found["fence"], at
        else:
            for ticks in _TICKS.finditer(line):
                yield at + ticks.start(), at + ticks.end()
        at = end


def without_end_tokens(text: str) -> str:
    """The text without trailing end-of-turn tokens that a server left in it."""
    ended = text.rstrip()
    while token := _LAST_TOKEN.search(ended, max(len(ended) - _LONGEST_TOKEN, 0)):
        text = ended = ended[: token.start()].rstrip()
    return text


def _clean(answer: str, prompts: Iterable[str]) -> str:
    """The answer without what some templates add around it, unless a prompt asked for it."""
    answer = _MARKED_ANSWER.sub("", without_end_tokens(answer)).strip()
    wrapped = _WRAPPER.fullmatch(answer)
    if not wrapped or any(f"<{wrapped['tag'].lower()}>" in prompt.lower() for prompt in prompts):
        return answer
    return wrapped["inside"].strip()
