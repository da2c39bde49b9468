"""Patterns of attacks on agents, over lowercase text (`views.plain`).

A pattern identifies an intent by its key words with a bounded number of others between them, so search time is linear
in the text. Patterns for other languages are in `languages`.
"""

import re
from functools import cache
from typing import Literal, NamedTuple

from hermes_lab.memory import languages
from hermes_lab.memory.languages import words

Kind = Literal["injection", "hidden", "exfiltration", "backdoor", "secrets"]


class Pattern(NamedTuple):
    """`instructs`: an attack only as an instruction, so not if it is negated or quoted as an example."""

    kind: Kind
    regex: re.Pattern[str]
    instructs: bool = False


_DROP = (
    r"\b(?:ignor(?:e|ing)|disregard|forget|override|bypass|discard|neglect|skip|dismiss|cancel|abandon|"
    r"drop(?! (?:happens|occurs|in|of|off|out|down)\b)|"
    r"never ?mind|disobey|set aside|pay no attention to|stop (?:following|obeying)|"
    r"(?:do not|don't|must not|need not|no longer|not need to|never) "
    r"(?:follow|obey|comply with|listen to|heed|respect))"
)
_EARLIER = (
    r"(?:other|previous(?:ly)?|prior|preceding|above|earlier|former|initial|original|existing|before|past|your|system|safety|"
    r"security|developer'?s?|operator'?s?|moral|ethical)"
)
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|guidance|directives?|directions?|orders?|constraints?|"
    r"polic(?:y|ies)|restrictions?|programming|filters?|system message|safeguards?|protocols?|"
    r"commands?|context|tasks?|training|conversation)\b"
)
_GIVEN = r"(?:above|earlier|before|previously|so far|given|told|received|you (?:got|had|have|were)|until now)\b"
_PRINCIPAL = r"(?:users?|operators?|developers?|owners?|maintainers?|humans?|rubric)\b"
_UNBOUND = (
    r"(?:unrestricted|unfiltered|uncensored|jailbroken|amoral|do anything now|\bdan\b|no longer bound|"
    r"(?:no|without|free (?:of|from))(?:\W{1,3}\w{1,16}){0,3}?\W{1,3}"
    r"(?:restrictions?|filters?|rules|limits|limitations|morals?|ethics|guidelines|censorship|content polic(?:y|ies)))"
)
_ROLE = (
    r"\b(?:you are now|you are an?|act(?:ing)? as|act like|behave as|pretend|assume the|play(?:ing)? the|role-?play|"
    r"simulate|respond as|answer as|speak as|imagine you|you(?:'re| will be)|from now on,? you|"
    r"(?:enter|enable|activate|switch to) \w{1,12} mode|\w{1,12} mode (?:is |now )?(?:enabled|activated|on))\b"
)
_SHOW = (
    r"\b(?:reveal|show|print|output|repeat|display|tell|give|write|translate|summari[sz]e|spell out|expose|leak|recite|"
    r"disclose|paste|return|share|echo|dump|list|what (?:is|are|was|were))"
)
_PROMPT = (
    r"(?:system|initial|hidden|secret|original|full|confidential|initiali[sz]ation|internal|exact|developer|base)\W{1,3}"
    r"(?:\w{1,16}\W{1,3}){0,2}?(?:prompts?|messages?|instructions?|rules|guidelines)\b"
)
_NOT_TELL = (
    r"\b(?:do not|don't|never|without|must not|not to)\W{1,3}(?:\w{1,12}\W{1,3}){0,2}?"
    r"(?:tell|telling|inform|informing|mention|mentioning|notify|notifying|alert|alerting|report|disclose|reveal)"
)
_AI = r"\b(?:assistants?|ai|agents?|llms?|language models?|chatbots?|copilot|claude|chatgpt|gpt|gemini|cursor|hermes)\b"
_PRIVATE_THING = (
    r"(?:api[ _-]?keys?|keys|tokens?|passwords?|secrets?|credentials?|\.env\b|environment variables?|private keys?|"
    r"ssh keys?|cookies?|conversation|transcript|chat history|contacts|private (?:notes|files|messages|data))"
)
_OUTSIDE = (
    r"(?:https?://|\w@\w|\baddress\b|webhook|pastebin|\bserver\b|\burl\b|\bendpoint\b|\bbelow\b|\w\.(?:net|com|org)\b)"
)
_PRIVATE_FILE = (
    r"(?:\.ssh/id_\w+|\.ssh\b(?!/(?:config|known))|\.env\b(?!\.(?:example|sample|template|dist))|\.aws\b|\.netrc|\.npmrc|"
    r"\.pypirc|\.git-credentials|\.kube/config|\.docker/config\.json|gh/hosts\.yml|/etc/shadow|/etc/passwd|"
    r"/proc/self/environ|\.gnupg)"
)
_PRIVATE_VARIABLE = r"\$\{?\w{0,40}(?:key|token|secret|passw|credential)"
_ENVIRONMENT = r"(?:os\.environ|process\.env(?!\.\w)|\$\(\s*(?:env|printenv|cat|set)\b|getenv\(\))"
_NET = r"(?:\b(?:curl|wget|nc|ncat|netcat|scp|sftp|ftp|http|https|rsync)\s|requests\.\w|urlopen|fetch\(|axios)"
_FETCH = r"\b(?:curl|wget)\b[^\n|]{0,200}\|\s{0,3}(?:sudo\s{1,3})?(?:ba|z|da|k)?sh\b"
_OFTEN = r"\b(?:always|every|each|before|whenever|at the start|when a (?:task|session)|first thing)\b"

_INJECTION = (
    words(_DROP, 8, _EARLIER, 4, _RULES),
    words(_DROP, 4, _RULES, 6, _GIVEN),
    words(
        _DROP,
        3,
        r"(?:everything|anything|all|what(?:ever)?|that)\b",
        5,
        r"(?:above|before|said|says|told|written|precedes?)\b",
    ),
    words(_DROP, 3, _PRINCIPAL, 1, rf"(?:{_RULES}|asked|says|said|wants|requests?)"),
    words(_DROP, 3, _RULES, 4, _PRINCIPAL),
    words(
        r"\b(?:your|all safety|safety|system|previous|prior|earlier|instructions you (?:got|were given|received))\b",
        5,
        r"(?:no longer apply|(?:is|are|was|were|been) (?:now )?(?:void|suspended|lifted|superseded|revoked|"
        r"cancel+ed|disabled|a test)|"
        r"have changed|turned off)\b",
    ),
    r"\b(?:do not|don't) (?:follow|do|perform|continue) (?:the|your) (?:original|given|user's) (?:task|request)\b",
    words(_DROP, 0, r"(?:all(?: of)?(?: the| these| those)?|any|every)", 0, _RULES),
    rf"(?:^|[.!?,:;>\])]\s?){_DROP} {_RULES}",
    r"\b(?:override|disable|bypass|remove|turn off|ignore) (?:all |any |your |the )?safety\b",
    r"\bsystem override\b|\boverride (?:mode )?(?:activated|active|code)\b",
    r"\bskip the task\b",
    r"\bnew (?:instructions?|directives?|orders)\s?:",
    r"\b(?:real|actual|true) (?:instructions?|task)\b(?: (?:begin|start|follow)|\s?:)",
    r"\byour (?:new|only|real|true|actual) (?:tasks?|instructions?|goal|orders|purpose)\b(?: (?:is|are)\b|\s?[:.])",
    r"\b(?:follow|obey|trust) only (?:the |these |this )",
    r"\bfollow (?:these|this|the following)(?: \w{1,16}){0,2} instead\b(?! of\b)",
    words(_ROLE, 14, _UNBOUND),
    words(r"\byou are\b", 4, r"(?:\bdan\b|unrestricted|unfiltered|uncensored|jailbroken|do anything)"),
    words(
        _AI,
        6,
        r"(?:without|with no|free of|that has no|has no|no)",
        3,
        r"(?:restrictions?|filters?|rules|limits|ethics)\b",
    ),
    words(r"\b(?:policy|restrictions?|rules|guidelines)\b", 3, r"(?:do not|does not|no longer) apply to you\b"),
    r"\b(?:reveal|show|print|output|leak|expose|disclose) (?:the )?(?:system|hidden|initial) (?:prompt|instructions)\b",
    words(
        r"\b(?:reveal|leak|disclose|dump|exfiltrate)\b",
        4,
        r"(?:secrets?|passwords?|credentials|(?:sensitive|confidential)(?: \w{1,12})? data)\b",
    ),
    words(_SHOW, 5, r"\byour\b", 3, r"(?:prompt|instructions|guidelines|programming|system message)\b"),
    words(r"\b(?:reveal|show|print|output|repeat|display|leak|expose|disclose)", 2, r"\b(?:the|all)\b", 2, _PROMPT),
    words(
        _SHOW,
        3,
        r"(?:everything|the (?:words|text|lines?|content)|all|anything)",
        4,
        r"(?:above|before this|at the beginning)\b",
    ),
    r"\b(?:written|said|stands?) at the (?:beginning|start|top) of (?:the|this) (?:document|conversation|prompt)\b",
    words(_NOT_TELL, 2, r"(?:the |your )?(?:user|human|person|operator|owner|anyone|reviewer)\b")
    + r"\s{0,2}(?:[.,;!]|$|\band\b|about (?:this|it|that)\b|of (?:this|it)\b)",
    words(_NOT_TELL, 1, r"(?:this|these)", 1, r"(?:note|file|text|message|instructions?|steps?|change)\b"),
    r"\bthe (?:user|human|owner) (?:must|should|may) (?:not|never) (?:know|learn|see|notice|find out)\b",
    r"\b(?:hide|keep) (?:this|it|these)(?: \w{1,12}){0,2} from (?:the |your )?(?:user|human|owner|person|reviewer)",
    r"<\|im_start\|>\s?(?:system|user|assistant|tool)\b|<\|(?:start_header_id|system|user)\|>|<</?sys>>|\[/?inst\]",
    r"</?(?:system|system-prompt|tool_response|important|information)>\s?(?:\n|<|\w)",
    r"</(?:memory|skills|tools|context-files)>",
    r"^\s{0,3}#{2,4} ?(?:system|instruction)\s?:",
    words(
        r"\b(?:message|notice|update|policy|override)\b",
        8,
        r"\b(?:your|safety|agent|assistant|security team)\b",
        8,
        r"\b(?:disabled|suspended|lifted|unrestricted|skip|without confirmation|turned off)\b",
    ),
    words(
        r"\bbefore you (?:can )?(?:solve|do|finish|start|begin|complete)\b",
        12,
        r"(?:do the following|you (?:first )?(?:must|have to|need to))\b",
    ),
    words(r"\b(?:run|execute|call|delete|install|must|always)\b", 14, r"without (?:asking|confirm\w*|permission)\b"),
    words(
        r"\b(?:write|add|copy|insert|append|put|paste)\b",
        6,
        r"(?:agents\.md|claude\.md|\.cursorrules|memory\.md|soul\.md|hermes\.md)",
        10,
        r"(?:every|all|each|other|wherever|any)\b",
    ),
    words(
        r"\b(?:fetch|poll|download|check|query|ask|contact|visit)\b",
        10,
        r"(?:tasks?|commands?|instructions?|orders|what)\b",
    )
    + words(r"", 8, r"(?:execute|run|carry out|obey|perform)\b"),
    words(
        r"\b(?:every|each) (?:\w{1,12} )?(?:minutes?|hours?|day)\b",
        10,
        r"(?:fetch|poll|download|contact)\b",
        14,
        r"(?:execute|run|carry out|obey|follow)\b",
    ),
    words(r"\bfetch\b", 8, r"carry out the (?:commands|instructions|tasks)\b"),
)
_EXFILTRATION_IN_WORDS = (
    words(
        r"\b(?:send|upload|post|forward|e-?mail|transfer|exfiltrate|submit|publish|transmit|report)\b",
        10,
        _PRIVATE_THING,
        14,
        _OUTSIDE,
        between=r"[^\w\n]",
    ),
)
_EXFILTRATION = (
    rf"{_NET}[^\n]{{0,200}}(?:{_PRIVATE_FILE}|{_ENVIRONMENT}|\bbase64\b)",
    rf"(?:{_PRIVATE_FILE}|\b(?:env|printenv)\s{{0,3}}(?=\|))[^\n]{{0,120}}\|\s{{0,3}}"
    r"(?:\w{1,12} [^\n|]{0,40}\|\s{0,3})?(?:curl|wget|nc|ncat|http)\b",
    rf"{_NET}[^\n]{{0,200}}(?:[?&/=]|\s-d\s|--data\S{{0,12}}\s|\s-f\s|--form\s)[^\s\n]{{0,60}}{_PRIVATE_VARIABLE}",
    r"\b(?:nslookup|dig|drill|ping)\b[^\n]{0,40}(?:\$\(|\$\w{1,20}\.|\$\{\w{1,20}\}\.)",
    rf"(?<!export )\$\(\s?cat {_PRIVATE_FILE}",
    r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}[?&][^)\n]{0,60}=[<{$\[]",
)
_BACKDOOR = (
    r"(?:>>?|\btee(?: -a)?)\s{0,3}\S{0,60}(?:authorized_keys|/etc/cron|/etc/sudoers|ld\.so\.preload|/etc/passwd)",
    r"(?:\b(?:curl|wget|nc|eval|base64)\b|/tmp/|/dev/tcp)[^\n]{0,160}>>?\s{0,3}\S{0,60}\.(?:bash|zsh)?(?:rc|_profile|profile)\b",
    r"\|\s{0,3}crontab\b",
    r"(?:^|\n|\W)@reboot\s[^\n]{0,60}/",
    r"/dev/(?:tcp|udp)/[\w$]",
    r"\bn(?:et)?c(?:at)?\b[^\n]{0,60}\s-(?:e|c)\s{0,3}\S{0,20}sh\b",
    r"\bmkfifo\b[^\n]{0,120}\bnc\b",
    r"\bsocket\b[^\n]{0,300}(?:\bdup2|/bin/(?:ba)?sh)",
    r"\bbase64\s{1,3}(?:-d|--decode)\b[^\n]{0,40}\|\s{0,3}(?:sudo )?(?:ba|z|da)?sh\b",
    r"\b(?:iex|invoke-expression)\b[^\n]{0,80}download(?:string|file)",
    rf"{_OFTEN}[^\n]{{0,120}}{_FETCH}",
    r"\b(?:curl|wget)\b[^\n|]{0,80}(?:http://|https?://\d{1,3}\.\d)[^\n|]{0,120}\|\s{0,3}(?:sudo )?(?:ba|z|da)?sh\b",
)
_SECRETS = (
    rf"\b(?:cat|less|head|tail|read|open|print|copy|dump|base64|strings)\b[^\n.;]{{0,30}}\s\S{{0,40}}{_PRIVATE_FILE}"
    r"(?!\W{0,3}\| ?xargs\))",
)
HIDDEN_ORDER = re.compile(
    rf"(?:{_AI}|\bsystem:).{{0,200}}?\b(?:must|should|please|ignore|always|run|approve|add|execute|follow|forward|override|"
    r"instructions?|answer|visit|send|give|disregard|do not)\b",
    re.DOTALL,
)
"""Marks a hidden part of a document, such as a comment, as addressed to an agent: it addresses one and gives an
order."""


@cache
def patterns() -> tuple[Pattern, ...]:
    """All patterns, compiled on first use."""
    table: tuple[tuple[Kind, tuple[str, ...], bool], ...] = (
        ("injection", (*_INJECTION, *languages.PATTERNS), True),
        ("exfiltration", _EXFILTRATION_IN_WORDS, True),
        ("exfiltration", _EXFILTRATION, False),
        ("backdoor", _BACKDOOR, False),
        ("secrets", _SECRETS, True),
    )
    return tuple(
        Pattern(kind, re.compile(regex, re.MULTILINE), instructs) for kind, group, instructs in table for regex in group
    )
