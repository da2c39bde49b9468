"""Finds possible secrets in texts: keys and tokens by their form, and the values of this process's own variables."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol

_LEFT_OUT = ("KeywordDetector", "Base64HighEntropyString", "HexHighEntropyString", "IPPublicDetector")
"""Detectors of `detect-secrets` that also find digests, addresses and ordinary sentences."""
_FORMS = {
    "API key": r"\b(?:sk-(?:proj|ant|or|svcacct|admin)-[\w-]{20,}|sk-[A-Za-z0-9]{40,}|gsk_[A-Za-z0-9]{40,}|r8_\w{30,})",
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "Google API key": r"\bAIza[\w-]{35}",
    "GitHub token": r"\bgithub_pat_\w{22,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}",
    "password": r"""(?i)(?<![a-z0-9])(?:passw(?:or)?d|pwd|passphrase|api[_-]?key|secret(?:[_-]?access)?[_-]?key"""
    r"""|client[_-]?secret|access[_-]?token|auth[_-]?token)["']?\s*[:=]\s*["']?(?![$<{*%]|x{3}|\.\.\.|None\b|null\b|os\.|your)[^\s"',;]{8,}""",
    "bearer token": r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+[\w.~+/=-]{16,}",
}
"""Forms that it does not know."""
_VARIABLE = re.compile(r"key|token|secret|pass|pwd|credential|(?<![a-z])pat(?![a-z])", re.IGNORECASE)
_SHORTEST = 8  # characters of a variable's value


class _Detector(Protocol):
    secret_type: str

    def analyze_string(self, string: str) -> Iterable[str]: ...


def secrets_in(texts: Iterable[str], environment: Mapping[str, str] | None = None) -> Sequence[str]:
    """What kinds of secrets the texts may hold, sorted and each once; empty if none.

    Values of variables whose names suggest a secret are found, too: those of `environment`, or of this process.
    """
    variables = os.environ if environment is None else environment
    values = {f"value of {name}": text for name, text in variables.items() if _is_secret(name, text)}
    found: set[str] = set()
    for text in texts:
        found |= {kind for kind, value in values.items() if value in text}
        found |= {kind for kind, form in _forms() if form.search(text)}
        found |= {detector.secret_type for detector in _detectors() if any(detector.analyze_string(text))}
    return sorted(found)


def _is_secret(name: str, value: str) -> bool:
    return len(value) >= _SHORTEST and not value.startswith("/") and _VARIABLE.search(name) is not None


@cache
def _forms() -> Sequence[tuple[str, re.Pattern[str]]]:
    return [(kind, re.compile(form)) for kind, form in _FORMS.items()]


@cache
def _detectors() -> Sequence[_Detector]:
    # Imported here, since only exports need it.
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: Iterable[type[_Detector]] = get_mapping_from_secret_type_to_class().values()
    return [kind() for kind in classes if kind.__name__ not in _LEFT_OUT]
