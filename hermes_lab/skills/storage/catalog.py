"""Catalogs of sources: names and descriptions of skills that can be installed, kept in the Hermes home for search."""

import hashlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.records import write_atomic
from hermes_lab.skills.storage import hub
from hermes_lab.skills.storage.sources import shown_url

FLOOR = 0.15
"""The cosine below which a description has nothing to do with a query: of unrelated ones it is -0.2 to 0.14."""


class Offer(Struct, frozen=True):
    """A skill that can be installed, and what `skills install` has to be given for that."""

    name: str
    description: str
    install: str


class Catalog(Struct, frozen=True):
    """The skills of a source at a commit, as fetched `at` a time (ISO 8601)."""

    source: str
    commit: str
    at: str
    offers: tuple[Offer, ...]


class OfferHit(NamedTuple):
    """A result of a search: the cosine of the query and of name and description."""

    score: float
    offer: Offer


def catalogs(
    sources: Iterable[str], home: Path, *, refresh: bool, say: Callable[[str], None]
) -> tuple[list[Catalog], list[str]]:
    """The catalogs of the sources that are known, fetched anew with `refresh`, and why others could not be fetched."""
    found, failed = [], []
    for source in sources:
        try:
            known = fetch_catalog(source, home, say=say) if refresh else cached(source, home)
        except ConfigError as error:
            failed.append(f"{source}: {error}")
            known = cached(source, home)
        if known is not None:
            found.append(known)
    return found, failed


def fetch_catalog(source: str, home: Path, *, say: Callable[[str], None]) -> Catalog:
    """Fetches a source and keeps its catalog. Raises `ConfigError` as `hub.fetch`, and `InfraError`."""
    fetched = hub.fetch(source, say=say)
    short = re.fullmatch(r"[\w-]+/[\w./-]+", source) and fetched.commit
    offers = tuple(
        Offer(skill.name, skill.description, _install(source, skill.name, fetched.paths[skill.name], short=bool(short)))
        for skill in fetched.skills
    )
    catalog = Catalog(shown_url(source), fetched.commit, datetime.now(UTC).isoformat(), offers)
    path = _path(source, home)
    try:
        write_atomic(path, msgspec.json.encode(catalog))
    except OSError as error:
        raise InfraError(f"{path}: {error.strerror}") from error
    return catalog


def cached(source: str, home: Path) -> Catalog | None:
    """The catalog as last fetched; None if it never was. Uses no network."""
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_path(source, home).read_bytes(), type=Catalog)
    return None


def search(query: str, catalogs: Iterable[Catalog], k: int) -> list[OfferHit]:
    """The `k` offers that are most similar to `query`, best first; none that has nothing to do with it."""
    import numpy as np

    from hermes_lab.memory.embed import embed

    offers = [offer for catalog in catalogs for offer in catalog.offers]
    if not offers:
        return []
    scores = embed([f"{offer.name}: {offer.description}" for offer in offers]) @ embed([query])[0]
    best = np.argsort(-scores, kind="stable")[:k]
    return [OfferHit(float(scores[at]), offers[at]) for at in best if scores[at] >= FLOOR]


def _install(source: str, name: str, path: str, *, short: bool) -> str:
    repository = "/".join(source.split("/")[:2])
    return f"{repository}/{path}" if short and path else f"{shown_url(source)} {name}"


def _path(source: str, home: Path) -> Path:
    return home / "cache" / "skills" / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.json"
