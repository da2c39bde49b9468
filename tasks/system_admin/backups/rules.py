"""How a house may want its backups: what each convention changes in the plain copy and in its script."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types, slots_of
from hermes_lab.tasks.system_admin.backups.tree import Entry, Tree


@dataclass(frozen=True)
class SiteConfig:
    """The folders of a service."""

    slug: str
    folders: tuple[str, ...]
    skipped: str


@dataclass(frozen=True)
class Backup:
    """The backup that has to be made, as the judge sees it. Script lines with this effect are in `rules.yaml`."""

    copy: str
    """Its name in the backup folder."""
    kept: Callable[[str, int], bool] = lambda path, size: True
    """By path and size; the size of a link is the length of its target's name."""
    named: Callable[[str], str] = lambda path: path
    mode: str = ""
    """For all files; empty: as they are."""
    link: str = ""
    """The ending of the file that holds the target of a link; empty: links stay."""
    apart: bool = False
    """Whether hard links become separate files."""
    digest: str = "sha256"
    line: Callable[[str, str, int], str] = lambda digest, path, size: f"{digest}  {path}"
    counted: str = ""
    """A file next to the copy with the number of its files."""


Apply = Callable[[Backup, Literals], Backup]


def planned(site_config: SiteConfig, rule: Rule | None) -> Backup:
    """The right backup under `rule`."""
    plain = Backup(copy=site_config.slug)
    return CONVENTIONS[rule.type].apply(plain, dict(rule.literals)) if rule else plain


@dataclass(frozen=True)
class Copied:
    """A file or link in the copy. Hard links to one file share a `group`."""

    kind: str
    mode: str
    content: str
    """SHA-256 of a file, the target of a link."""
    group: str
    entry: Entry
    """Its source, with the text of files that the backup adds."""


def copied(backup: Backup, site_config: SiteConfig, tree: Tree) -> dict[str, Copied]:
    """The right entries in the copy of `tree`, by path, without folders."""
    by_path = {entry.path: entry for entry in tree}
    found = {}
    for entry in tree:
        source = by_path[entry.same] if entry.same else entry
        if entry.path.startswith(f"{site_config.skipped}/") or not backup.kept(entry.path, source.size):
            continue
        if entry.target and not backup.link:
            found[entry.path] = Copied("l", "", entry.target, "", entry)
            continue
        path = backup.named(entry.path)
        if entry.target:
            path, source = f"{path}.{backup.link}", Entry(entry.path, f"{entry.target}\n")
        group = path if backup.apart else source.path
        found[path] = Copied("f", backup.mode or source.mode, digest_of(source, "sha256"), group, source)
    return found


def sums(backup: Backup, files: Iterable[tuple[str, Copied]]) -> list[str]:
    """The lines of the checksum list, in any order."""
    return [
        backup.line(digest_of(each.entry, backup.digest), path, each.entry.size)
        for path, each in files
        if each.kind == "f"
    ]


def digest_of(entry: Entry, name: str) -> str:
    """The digest of a file's bytes, in hexadecimal digits."""
    return _zeros(entry.hole, name) if entry.hole else _digest(entry.text.encode(), name)


@cache
def _zeros(size: int, name: str) -> str:
    return _digest(bytes(size), name)


def _digest(data: bytes, name: str) -> str:
    return hashlib.new("blake2b" if name == "b2" else name, data, usedforsecurity=False).hexdigest()


def script(site_config: SiteConfig, rule: Rule | None) -> str:
    """A script that makes the right backup under `rule`."""
    backup, slots = planned(site_config, rule), slots_of(CONVENTIONS, rule)
    preserve = " --no-preserve=links" if backup.apart else ""
    filters = f" \\\n  | {slots['filter']}" if "filter" in slots else ""
    lines = [
        "#!/bin/bash",
        f"# The nightly backup of srv/{site_config.slug}.",
        "set -eu",
        f"copy=backup/{backup.copy}",
        'rm -rf "$copy"',
        "mkdir -p backup",
        f'cp -a{preserve} srv/{site_config.slug} "$copy"',
        f'rm -rf "$copy/{site_config.skipped}"',
        *([slots["step"]] if "step" in slots else []),
        'cd "$copy"',
        f"find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -rd '\\n' {backup.digest}sum --{filters} \\",
        f"  > ../{site_config.slug}.sums",
    ]
    return "\n".join(lines) + "\n"


_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Apply]] = {
    "called": Behavior(lambda plain, rule: replace(plain, copy=rule["form"].replace("NAME", plain.copy))),
    "without": Behavior(
        lambda plain, rule: replace(plain, kept=lambda path, size: not path.startswith(f"{rule['folder']}/"))
    ),
    "links": Behavior(lambda plain, rule: replace(plain, link=rule["ending"])),
    "mode": Behavior(lambda plain, rule: replace(plain, mode=rule["mode"].lstrip("0"))),
    "digest": Behavior(lambda plain, rule: replace(plain, digest=rule["digest"])),
    "prefix": Behavior(
        lambda plain, rule: replace(plain, line=lambda digest, path, size: f"{digest}  {rule['prefix']}{path}")
    ),
    "sized": Behavior(
        lambda plain, rule: replace(plain, line=lambda digest, path, size: f"{size}{rule['mark']}{digest}  {path}")
    ),
    "apart": Behavior(lambda plain, rule: replace(plain, apart=True)),
    "spaces": Behavior(lambda plain, rule: replace(plain, named=lambda path: path.replace(" ", rule["mark"]))),
    "small": Behavior(lambda plain, rule: replace(plain, kept=lambda path, size: size <= 1024 * rule["limit"])),
    "filled": Behavior(lambda plain, rule: replace(plain, kept=lambda path, size: size > 0)),
    "counted": Behavior(lambda plain, rule: replace(plain, counted=rule["file"])),
    "ending": Behavior(lambda plain, rule: replace(plain, named=lambda path: f"{path}.{rule['ending']}")),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
