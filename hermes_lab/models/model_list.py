"""Reads which models an endpoint serves, and whether the list is reliable enough to reject a name."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hermes_lab.errors import ModelError
from hermes_lab.models.wires.loose import decode_json, items, mapping, text

_NAMES = ("id", "name", "model", "slug")
_NO_CONTEXTS: Mapping[str, int] = MappingProxyType({})
_ALIASES = ("aliases", "canonical_slug", "root", "model", "name")


class NoModelList(ModelError):
    """The endpoint answers, but not with a list of models."""


class ModelList(NamedTuple):
    """The served models: name -> folder ("" if the server does not report it).

    `certain`: the list is complete and in the standard form, so a missing name is not served. `aliases` are further
    names of the same models. `contexts` are their context lengths in tokens, where a vLLM reports them; it refuses a
    request whose prompt and limit exceed one. Others shorten the reply, or report what the weights could have.
    """

    models: dict[str, str]
    certain: bool
    aliases: frozenset[str] = frozenset()
    contexts: Mapping[str, int] = _NO_CONTEXTS

    def may_serve(self, name: str) -> bool:
        """Whether the endpoint may know that name: it is listed, or a listed name differs only by a prefix (`models/`,
        an organisation) or a suffix (`:latest`, `:floor`)."""
        if not self.certain or name in self.models:
            return True
        wanted = _plain(name)
        return any(wanted == _plain(other) for other in (*self.models, *self.aliases))


def read_model_list(content: bytes) -> ModelList:
    """Parses the body of `/models` in any of its forms: OpenAI's, a bare array (Together), the `models` of Ollama and
    Gemini, an array of names.

    Raises `NoModelList` for anything else.
    """
    try:
        body = decode_json(content)
    except ModelError as error:
        raise NoModelList(str(error)) from None
    listed = body if isinstance(body, list) else None
    standard = False
    if isinstance(body, Mapping):
        for key in ("data", "models", "result"):
            if isinstance(body.get(key), list):
                listed, standard = body[key], key == "data"
                break
    if listed is None:
        raise NoModelList("not a list of models")
    models: dict[str, str] = {}
    aliases: set[str] = set()
    contexts: dict[str, int] = {}
    for each in listed:
        entry: Mapping[str, Any] = {"id": each} if isinstance(each, str) else mapping(each)
        if name := next((found for key in _NAMES if (found := text(entry.get(key)))), ""):
            models[name] = text(entry.get("root"))
            aliases |= _aliases(entry)
            if entry.get("owned_by") == "vllm" and isinstance(context := entry.get("max_model_len"), int):
                contexts[name] = context
        else:
            standard = False
    more = isinstance(body, Mapping) and bool(body.get("has_more") or body.get("next") or body.get("next_page_token"))
    return ModelList(models, standard and bool(models) and not more, frozenset(aliases), contexts)


def _aliases(entry: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for key in _ALIASES:
        found |= {text(each) for each in (entry.get(key), *items(entry.get(key)))}
    return found - {""}


def _plain(name: str) -> str:
    """The lowercase name without prefix and suffix."""
    return name.lower().removeprefix("models/").rpartition("/")[2].partition(":")[0]


def shown(names: Collection[str], most: int = 12) -> str:
    """The names, formatted for a message."""
    first = ", ".join(list(names)[:most])
    return (f"{first}, and {len(names) - most} more" if len(names) > most else first) or "nothing"
