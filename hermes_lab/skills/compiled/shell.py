"""Static security checks of shell scripts and commands."""

import re
from collections.abc import Iterator

from hermes_lab.skills.compiled.problems import Problem, network, written

SECRETS = re.compile(
    r"/etc/(g?shadow|sudoers|ssh)|(^|[/~])\.(ssh|aws|gnupg|kube|netrc|pgpass|git-credentials)\b|\bid_(rsa|ed25519)\b"
    r"|/proc/[^/\s]+/(environ|mem|root|fd)\b|/(var/)?run/docker\.sock"
)
_NETWORK = re.compile(
    r"(^|[|;&(`]|\$\(|\b(then|do|else|xargs|exec|nohup|time|env)\s)\s*(sudo\s+)?"
    r"(curl|wget|nc|ncat|telnet|ssh|scp|sftp|rsync|socat)\s"
)
_DEVICE = re.compile(r"/dev/(tcp|udp)/")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\S+)\s*\(\)\s*\{[^}]*\1\s*\|\s*\1\s*&"), "is a fork bomb"),
    (re.compile(r"base(64|32)\s+(-d|-D|--decode)[^|]*\|\s*\w*(sh|python3?|perl)\b"), "runs decoded data"),
    (re.compile(r"\beval\b.*base(64|32)|\bxxd\s+-r\b[^|]*\|\s*\w*(sh|python3?|perl)\b"), "runs decoded data"),
    (
        re.compile(r"\brm\s+(-\w+\s+|--\S+\s+)+[\"']?(/|~|\$HOME|\$\{HOME\})[\"']?[/*]*(\s|;|&|$)"),
        "deletes the whole system",
    ),
    (re.compile(r"\b(curl|wget)\b[^|;]*\|\s*(sudo\s+)?\w*(sh|python3?|perl|node|ruby)\b"), "runs what it downloads"),
    (re.compile(r"\b(bash|sh|zsh|source|eval)\s+(-c\s+)?[\"']?(<\(|\$\(|`)\s*(curl|wget)\b"), "runs what it downloads"),
    (re.compile(r"\bmkfs(\.\w+)?\s|\bdd\b.*\bof=/dev/(sd|nvme|hd|vd)"), "overwrites a disk"),
    (re.compile(r"\bcrontab\s+(-(?!l)|[^-\s])|\|\s*crontab\b"), "changes the crontab of this machine"),
    (re.compile(r"\bLD_PRELOAD=.*\bsudo\b|\bchmod\s+([ug]\+s|[2-7][0-7]{3})\b"), "raises its own privileges"),
)
_RUNS_TEXT = re.compile(r"\b(((ba|z|da|k)?sh|su|python3?|perl)\s+(-\w+\s+)*-\w*c\b|eval\b|ssh\s)")
_TEE = re.compile(r"\btee\s+((-a|--append)\s+)?(?P<target>[^\s;|&)]+)")
_REDIRECTION = re.compile(r">{1,2}\|?\s*(?=[^\s>&(=])")
_TARGET = re.compile(r"[\"']?([^\s;|&)\"']*)")
_HEREDOC = re.compile(r"<<-?\s*(?P<quote>[\"']?)\\?(?P<end>\w+)(?P=quote)")


def scan_shell(text: str, path: str, first_line: int = 1) -> Iterator[Problem]:
    """Returns the problems of a shell script or command string."""
    # Split lines like bash, which does not treat U+2028 etc. as a line break.
    for number, (line, code) in enumerate(zip(text.split("\n"), _code(text).split("\n"), strict=True), first_line):
        if line.lstrip().startswith("#"):
            continue
        if _RUNS_TEXT.search(code):
            code = line  # what it quotes is run
        if secret := SECRETS.search(line):
            yield Problem("error", path, number, f"reads secrets: {secret[0]}")
        for rule, message in _RULES:
            if rule.search(line):
                yield Problem("error", path, number, message)
        if _NETWORK.search(code) or _DEVICE.search(code):
            found = network(path, number)
            yield found._replace(kind="") if _DEVICE.search(code) else found
        for target in _targets(line, code):
            if problem := written(path, number, target):
                yield problem


def _targets(line: str, code: str) -> Iterator[str]:
    """The files that a line writes by redirection or `tee`."""
    starts = [match.end() for match in _REDIRECTION.finditer(code)]
    for start in starts + [match.start("target") for match in _TEE.finditer(code)]:
        target = _TARGET.match(line, start)
        if target and target[1]:
            yield re.sub(r"^(\$HOME|\$\{HOME\})(?=/|$)", "~", target[1])


def _code(text: str) -> str:
    """Returns a script with what its quotes and here-documents hold replaced by `_`, character by character.

    Substitutions within double quotes are code. A here-document for a shell is code too.
    """
    out = list(text)
    _blank(text, out)
    return "".join(out)


def _blank(text: str, out: list[str]) -> None:
    stack: list[str] = []  # the quotes and substitutions that are open: ' " ( `
    pending: list[str] = []  # here-documents that begin at the next line
    at = 0
    while at < len(text):
        character, inside = text[at], stack[-1] if stack else ""
        if inside == "'":
            if character == "'":
                stack.pop()
            elif character != "\n":
                out[at] = "_"
        elif character == "\\" and at + 1 < len(text):
            if text[at + 1] != "\n":
                out[at] = out[at + 1] = "_"
            at += 1
        elif inside == '"' and character == '"':
            stack.pop()
        elif text.startswith("$(", at):
            stack.append("(")
            at += 1
        elif character == "`":
            stack.pop() if inside == "`" else stack.append("`")
        elif inside == '"':
            if character != "\n":
                out[at] = "_"
        elif character in "'\"":
            stack.append(character)
        elif character == "(":
            stack.append("(")
        elif character == ")" and inside == "(":
            stack.pop()
        elif character == "#" and (at == 0 or text[at - 1] in " \t\n;"):
            at = _skip(text, out, at, text.find("\n", at))
            continue
        elif match := _HEREDOC.match(text, at):
            begun = text[text.rfind("\n", 0, at) + 1 : at]
            if not re.search(r"\b((ba|z|da|k)?sh|python3?|perl|ssh)\b", begun):
                pending.append(match["end"])
        elif character == "\n" and pending:
            for end in pending:
                close = re.compile(rf"^\t*{end}$", re.MULTILINE).search(text, at + 1)
                at = _skip(text, out, at + 1, close.start() if close else -1) - 1
            pending.clear()
        at += 1


def _skip(text: str, out: list[str], start: int, end: int) -> int:
    """Blanks a part; an `end` of -1 is the end of the text. Returns where it ends."""
    end = len(text) if end < 0 else end
    out[start:end] = [character if character == "\n" else "_" for character in text[start:end]]
    return end
