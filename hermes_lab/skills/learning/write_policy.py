"""Detects sentences that skills and notes should not record: temporary conditions and one-off events."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_IS = r"(is|are|was|were)"
_NOT = r"( not|n['’]t)( yet| currently| even)?"
_HERE = (
    r"(here|(in|on|from|inside|within) (this|the|our|my) "
    r"(current )?(sandbox|machine|environment|container|image|shell|path|workspace|box|computer|host))"
)
_PLACE = r"(sandbox|machine|environment|container|image|shell|installation|workspace|computer)"
_PROGRAM = r"(utility|program|command|module|package|library|binary|executable|compiler|interpreter)"
_NAME_OF_KEY = r"(?-i:(?<!\w)(?=[A-Z0-9_]{0,40}(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|AUTH))[A-Z0-9_]{3,80}+)"
_KEY = rf"({_NAME_OF_KEY}|api[- ]?keys?|(access|auth|bearer|api) tokens?|credentials?|passwords?)"
_CLAUSE = r"(?:^|(?<=[,:;(]) ?|(?<=\band )|(?<=\bbut )|(?<=\bso )|(?<=\bsince )|(?<=\bthat )|(?<=\bbecause ))\W{0,4}"
"""The start of a clause; `records we found` does not start one."""
_FIRST = r"(?:^|(?<=[,:;(]) ?|(?<=\band )|(?<=\bbut )|(?<=\bthen )|(?<=\bso )|(?<=\bfirst )|(?<=\bbecause ))\W{0,4}"
_TOOL = (
    r"(tools? \W?\w+|[a-z]\w+\W? tools?|terminal|browser|sandbox"
    r"|[a-z]+_(file|files|code|search|extract|manage|view|task)|^\W?(patch|process|memory|todo))\W?"
)
_SERVER = r"(network|internet|server|service|site|website|endpoint|api|host|mirror|gateway|proxy|dns|database|registry)"
_FAILS = r"(fail(s|ed)?|crash(es|ed)?|hangs?|hung|freezes?|breaks?|errors?)"
_POOR = r"(broken|unusable|useless|unreliable|flaky|buggy|defective)"
_ENDED = r"(return(s|ed)?|answer(s|ed)?|respond(s|ed)?|got|gave|gives?|fail(s|ed)?|end(s|ed)?)"
_NTH = r"(first|second|third|last|next|previous|initial|one|two|three|several|a few)"
_CLAIMS = {
    "a missing program": (
        r"command not found",
        r"no module named",
        r"no such (command|program|binary|executable|file or directory)",
        r"importerror|cannot import name|(cannot|can['’]t|could not|couldn['’]t) (be imported|import)",
        r"[\w.+-]{1,40}: not found",
        rf"{_IS}({_NOT}| never) (installed|on the path)",
        r"missing (binary|binaries|executable|program|command|package|module|library|dependency|dependencies)",
        rf"{_CLAUSE}[\w.+-]{{1,40}}\W? (is{_NOT} (available|usable)|is unavailable)",
        rf"{_PROGRAM}( \W?[\w.+-]{{1,40}}\W?)? "
        r"((cannot|can['’]t|could not|couldn['’]t) be (located|found|run|used)|is missing)",
        rf"{_IS}{_NOT} (available|present|usable|found|there|supported),? {_HERE}",
        rf"(do|does|did){_NOT} exist {_HERE}",
        r"importing [\w.]{1,40} (fails|failed)",
        r"only [\w+]+ [\d.]+ is (available|there|installed)",
        rf"{_IS} (unavailable|missing|absent) {_HERE}",
        rf"(cannot|can['’]t|could not|couldn['’]t) be (used|run|found|executed) {_HERE}",
        rf"{_PLACE} (has no|lacks|(does not|doesn['’]t) have|(comes|ships|is|was built) without"
        r"|is missing)",
        rf"(is|are|was|were|have|has|had|there['’]s) no [\w.+-]{{1,40}} {_HERE}",
    ),
    "a missing credential": (
        rf"(?<!with )(?<!with a )(?<!with an )(no|missing|invalid|expired|without( an?| the| any)?) (valid )?{_KEY}",
        rf"{_KEY} ({_IS} (missing|unset|undefined|empty|invalid|expired|wrong)|(has|have|had) expired)",
        rf"{_KEY} {_IS}{_NOT} (set|defined|configured|available|given|provided|valid|there)",
        rf"({_KEY}|tokens?),? (that|which) ((we|i|you) )?"
        rf"((do|does|did){_NOT} have|{_IS}{_NOT} (given|set|there|provided))",
        rf"(no|without) (value|setting) for {_NAME_OF_KEY}|{_NAME_OF_KEY} has no value",
        r"(i|we|you|it) (have|had|has|got) no (valid )?(key|token|login|access|account|password)",
        r"the (key|token|password) (is|was) (wrong|rejected|refused|missing|invalid|expired)",
        r"(rejects|rejected|refuses|refused) (our|my) (key|token|password|login)",
        rf"(nobody|no one) (gave|told) (us|me|you) (the|a|an|any) ({_KEY}|key|token|login)",
        r"permission denied|(not|n['’]t) logged in",
        r"(authentication|authori[sz]ation|log-?in) (failed|fails|was (refused|denied|rejected))",
        r"401 unauthorized|403 forbidden",
    ),
    "a temporary failure": (
        r"(?<=\w )timed out",
        r"(was|were|is|are|am|been|got|get|being) rate[- ]limited",
        r"connection (was |is )?(refused|reset)",
        rf"{_SERVER} {_IS} (temporarily |currently |now )?"
        r"(down|busy|overloaded|unavailable|unreachable|offline|locked|under maintenance|not (responding|reachable))",
        r"temporar(y|ily) (failures?|errors?|down|unavailable|failed)",
        rf"{_ENDED}( with| in)?( an?| the)?( http| status| error| code)* (429|50[0234])",
        r"503 service unavailable|502 bad gateway|504 gateway time-?out|429 too many requests",
        r"econn(reset|refused|aborted)|etimedout|enotfound|eai_again",
        rf"{_FAILS} (with|in|by|on|because of|due to) (an?|the) (timeout|time-out|(network|connection) error)",
        r"(did not|didn['’]t) (load|respond|connect|answer in time)",
        r"(cannot|can['’]t|could not|couldn['’]t) be reached|too many requests|internal server error",
        rf"{_SERVER} ((was|is|kept|keeps) )?return(ed|ing|s) (an )?errors?",
        rf"(requests?|connections?|calls?) to the {_SERVER} (hang|hung|fail|failed|never return)",
        rf"{_SERVER} (has )?(blocked|banned|throttled) (us|me)",
        r"(disk|memory|queue|cache) (is|was) full|(has|had|have) no free (slots?|space|memory|workers?)",
        rf"({_FAILS}|locked|down|unavailable|unreachable) (at the (moment|time)|right now|currently|for now|today)",
    ),
    "that a tool does not work": tuple(
        rf"{claim}(?!( properly| well| here)? (on|with|for|when|if|unless|without|until|in|as|like|inside|after)\b)"
        for claim in (
            rf"{_TOOL} never (works?|returns?|answers?|finishes|responds?)( an?)?( answer| result| anything)?",
            rf"{_TOOL} (does{_NOT}|do{_NOT}) (work|respond|answer|function)",
            rf"{_TOOL} {_IS} (just |very |totally )?{_POOR}",
            rf"{_TOOL} (always |often |usually |constantly |just )?{_FAILS}( (every|each) time| always| constantly)?",
            rf"{_TOOL} (always |only |just )?(returns?|gives?|answers?)( with)? (an errors?|errors|nothing( useful)?)",
            rf"{_TOOL} (do|does){_NOT} \w+ anything|{_TOOL} (loses|lost|swallows|cuts off) (its|the|all) \w+",
            rf"{_TOOL} (has|had) (a |many |some )?bugs?|{_TOOL} (gets?|got|is) stuck",
            rf"nothing can be done with( the)? {_TOOL}|(can['’]t|cannot|do{_NOT}) trust (what )?(the )?{_TOOL}",
            rf"{_TOOL} keeps?( on)? (failing|crashing|hanging|breaking|timing out)",
            rf"{_TOOL} (cannot|can['’]t|should not|must not) be (trusted|relied on|used)",
            rf"(avoid|(do{_NOT}|never|stop) (use|using|call|calling|rely(ing)? on|trust(ing)?))( the)? {_TOOL}"
            rf"\W*(because |since |as |for )?(it|they|this)( {_IS}|['’]s)?( always| often| just)? ({_FAILS}|{_POOR})"
            r"( (every|each) time)?",
        )
    ),
    "a one-off event": (
        r"(today|yesterday|this time|just now),? (i|we|the user|it)",
        r"(in|during) this (session|conversation|episode|chat)",
        r"the user (asked|wanted|told|said|was|were|complained|rejected|corrected|requested|preferred)",
        rf"{_FIRST}(i|we) (\w+ly |first |then |also |later )?"
        r"(was|were|had|tried|ran|found|fixed|made|wrote|got|did|went|saw|took|began|gave|forgot|chose|used"
        r"|(?!need|feed|proceed|exceed|succeed|embed)\w+ed)",
        rf"(my|our) ({_NTH} )?(submission|attempt|try|mistake)",
        rf"(my|our {_NTH}) (answer|command|total|result|run)",
        rf"{_NTH} (attempts?|try|tries|submissions?|answers?),? .{{0,60}}?(was|were|failed|worked|succeeded|had)",
        r"(the|this) (task|conversation|chat|session) (was|asked|wanted|began|started)",
        r"the agent (\w+ed|was|had|found|made|wrote|did|took|ran|saw)|it turned out",
        r"this was the (first|second|third|last) time|the user is (called|named)|the user['’]s name is",
        rf"it took (me |us |the agent )?({_NTH}|four|five|six|seven|many|\d+) (attempts|tries|steps|calls|turns)",
        r"on (mon|tues|wednes|thurs|fri|satur|sun)day,? (the \w+|i|we|it) (\w+ed|was|were|had|sent|told|gave)",
    ),
}
_FIXABLE = frozenset({"a missing program", "a missing credential", "a temporary failure"})
"""Kinds that a skill may record together with a remedy."""
_CONDITION = re.compile(r"\b(if|when|whenever|where|unless|in case|until|before)\b", re.IGNORECASE)
_WHICH = re.compile(r"\b(that|which|who)( have| has| had| was| were| are| is| been| also| already)*\s*$", re.IGNORECASE)
"""A relative clause before a claim: `rows that timed out count as failed` is a rule about rows."""
_MEND = (
    r"(pip|uv|apt|apt-get|brew|conda|npm|cargo|install|use|run|call|set|export|pass|read|ask|request|renew|refresh"
    r"|log in|retry|wait|back off|raise|increase|lower|reduce|split|fall back|start|restart|add|put|try|take)"
)
_REMEDY = re.compile(
    rf"(^|[,:;(`]|\b(and|then|so|must|please|first|instead))[\W\d]{{0,8}}{_MEND}\b(?!:)", re.IGNORECASE
)
"""A remedy at the start of a clause. `Run:` is not one, since it gives the skill's own command."""
_NEAR = 1_000
"""Characters on either side of a claim in which its condition or remedy stands. A sentence may be the whole text, and
have a claim in every word or two."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FENCE = re.compile(r"\s*(```|~~~)")


class Objection(NamedTuple):
    """A kind of content that should not be recorded, and the sentence that has it."""

    kind: str
    sentence: str


def objection(text: str) -> Objection | None:
    """Returns the first sentence of `text` that should not be recorded, or None.

    Missing programs and failures may be mentioned in a condition ("if ruff is not installed"), in a relative clause
    ("rows that timed out"), or with a remedy in the same or the next sentence. Code is not checked, but may be the
    remedy.
    """
    sentences = list(_sentences(text))
    for index, (sentence, is_code) in enumerate(sentences):
        if is_code:
            continue
        after = sentences[index + 1][0] if index + 1 < len(sentences) else ""
        for kind in _CLAIMS:
            if _claims(kind, sentence, after):
                return Objection(kind, sentence)
    return None


@cache
def _forbidden(kind: str) -> list[re.Pattern[str]]:
    """The patterns of a kind, compiled on first use, since every command imports this module."""
    return [re.compile(rf"(?<!\w)({claim})\b", re.IGNORECASE) for claim in _CLAIMS[kind]]


def _claims(kind: str, sentence: str, after: str) -> bool:
    """Whether the sentence makes a claim of this kind that is not part of a rule."""
    found = [match for pattern in _forbidden(kind) for match in pattern.finditer(sentence)]
    if kind not in _FIXABLE or not found:
        return bool(found)
    if _REMEDY.search(after):
        return False
    return any(_is_unconditional(match, sentence) for match in found)


def _is_unconditional(match: re.Match[str], sentence: str) -> bool:
    start, end = match.span()
    before = sentence[max(0, start - _NEAR) : start]
    rest = f"{before} {sentence[end : end + _NEAR]}"
    return not (_WHICH.search(before) or _CONDITION.search(rest) or _REMEDY.search(rest))


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yields sentences and lines of fenced code, each with whether it is code."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced:
            yield line, True
        else:
            yield from ((part, False) for part in _SENTENCE_END.split(line.strip()) if part)
