"""How a house may want its backups: what each convention makes of the plain copy and of the script that makes it."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType
from hermes_lab.tasks.system_admin.backups.tree import Entry, Tree


@dataclass(frozen=True)
class SiteConfig:
    """What a service keeps."""

    slug: str
    folders: tuple[str, ...]
    skipped: str


@dataclass(frozen=True)
class Backup:
    """A backup as it has to be made. `steps` and `list_steps` are lines and filters of the script; they have the same
    effect as what `names` and the other fields say to the judge."""

    copy: str
    """Its name, below the folder of the backups."""
    kept: Callable[[str, int], bool] = lambda path, size: True
    """By path and size; a link has that of its target's name."""
    named: Callable[[str], str] = lambda path: path
    mode: str = ""
    """For all files; empty: as they are."""
    link: str = ""
    """The ending of the file that holds where a link points; empty: links stay."""
    apart: bool = False
    """Whether names of one file become files of their own."""
    digest: str = "sha256"
    line: Callable[[str, str, int], str] = lambda digest, path, size: f"{digest}  {path}"
    counted: str = ""
    """A file beside the copy that tells the number of its files."""
    steps: tuple[str, ...] = ()
    list_steps: tuple[str, ...] = ()


Changed = Callable[[Backup, SiteConfig, Mapping[str, Any]], Backup]


@dataclass(frozen=True)
class Convention:
    """`instruction` and `paraphrases` are format strings over the literals; `changed` makes of the plain backup what
    they ask for."""

    instruction: str
    paraphrases: tuple[str, ...]
    draw: Callable[[Draws, SiteConfig], Mapping[str, Any]]
    changed: Changed
    unseen: bool = False


def planned(site_config: SiteConfig, rule: Rule | None) -> Backup:
    """The backup that is right where `rule` holds."""
    plain = Backup(copy=site_config.slug)
    return CONVENTIONS[rule.type].changed(plain, site_config, dict(rule.literals)) if rule else plain


@dataclass(frozen=True)
class Copied:
    """A file or link in the copy. Names of one file share a `group`."""

    kind: str
    mode: str
    content: str
    """SHA-256 of a file, the target of a link."""
    group: str
    entry: Entry
    """Where it comes from, with the text of what is new."""


def copied(backup: Backup, site_config: SiteConfig, tree: Tree) -> dict[str, Copied]:
    """What has to lie in the copy of `tree`, by path; folders aside."""
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


def script(backup: Backup, site_config: SiteConfig) -> str:
    """A script that makes the backup."""
    preserve = " --no-preserve=links" if backup.apart else ""
    filters = "".join(f" \\\n  | {step}" for step in backup.list_steps)
    lines = [
        "#!/bin/bash",
        f"# The nightly backup of srv/{site_config.slug}.",
        "set -eu",
        f"copy=backup/{backup.copy}",
        'rm -rf "$copy"',
        "mkdir -p backup",
        f'cp -a{preserve} srv/{site_config.slug} "$copy"',
        f'rm -rf "$copy/{site_config.skipped}"',
        *backup.steps,
        'cd "$copy"',
        f"find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -rd '\\n' {backup.digest}sum --{filters} \\",
        f"  > ../{site_config.slug}.sums",
    ]
    return "\n".join(lines) + "\n"


def _one_of(name: str, *values: Any) -> Callable[[Draws, SiteConfig], Mapping[str, Any]]:
    return lambda draws, site_config: {name: draws.choice(values)}


def _mark(draws: Draws, _: SiteConfig) -> Mapping[str, Any]:
    name, mark = draws.choice(
        (("a space", " "), ("a colon", ":"), ("a comma", ","), ("a slash", "/"), ("an equals sign", "="))
    )
    return {"name": name, "mark": mark}


def _filler(draws: Draws, _: SiteConfig) -> Mapping[str, Any]:
    name, mark = draws.choice((("low line", "_"), ("hyphen", "-"), ("plus sign", "+"), ("dot", "."), ("caret", "^")))
    return {"name": name, "mark": mark}


_MOVED = """find "$copy" -type f {which} -print0 | while IFS= read -r -d '' path; do mv "$path" "{to}"; done"""

CONVENTIONS: Mapping[str, Convention] = {
    "called": Convention(
        "call the copy {form}, with the name of the copied folder for NAME",
        (
            "a copy is called {form}, for the sake of the tape robot",
            "the offsite job takes only copies that are called {form}",
            "copies are found by their name {form}",
        ),
        _one_of("form", "full-NAME", "NAME.copy", "NAME.0", "bk_NAME", "NAME-nightly", "daily.NAME"),
        lambda plain, site_config, rule: replace(plain, copy=rule["form"].replace("NAME", site_config.slug)),
    ),
    "without": Convention(
        "leave out the folder {folder}, too",
        (
            "the folder {folder} may not be copied, by contract",
            "{folder} is secured elsewhere and must not be in a second backup",
            "backups are made without {folder}",
        ),
        lambda draws, site_config: {"folder": draws.choice(site_config.folders)},
        lambda plain, site_config, rule: replace(
            plain,
            kept=lambda path, size: not path.startswith(f"{rule['folder']}/"),
            steps=(f'rm -rf "$copy/{rule["folder"]}"',),
        ),
    ),
    "links": Convention(
        "replace each symbolic link in the copy by a file with .{ending} behind its name, which holds the target and a "
        "newline",
        (
            "the vault takes no symbolic links, their targets are kept in files ending in .{ending}",
            "symbolic links are written down as text, in files ending in .{ending}",
            "instead of a symbolic link a backup has a file ending in .{ending}",
        ),
        _one_of("ending", "link", "lnk", "target", "ref", "symlink"),
        lambda plain, site_config, rule: replace(
            plain,
            link=rule["ending"],
            steps=(
                f"""find "$copy" -type l -exec sh -c 'readlink "$1" > "$1.{rule["ending"]}" && rm "$1"' - {{}} ';'""",
            ),
        ),
    ),
    "mode": Convention(
        "give all files of the copy the mode {mode}",
        (
            "files of a backup have the mode {mode}",
            "in a copy the mode of every file is {mode}",
            "the vault refuses files whose mode is not {mode}",
        ),
        _one_of("mode", "0400", "0440", "0444", "0660", "0664"),
        lambda plain, site_config, rule: replace(
            plain, mode=rule["mode"].lstrip("0"), steps=(f'find "$copy" -type f -exec chmod {rule["mode"]} {{}} +',)
        ),
    ),
    "digest": Convention(
        "use {digest}sum instead of sha256sum",
        (
            "checksums of backups are those of {digest}sum",
            "the restore tool checks with {digest}sum",
            "{digest}sum is what the vault compares by",
        ),
        _one_of("digest", "md5", "sha1", "sha224", "sha384", "sha512", "b2"),
        lambda plain, site_config, rule: replace(plain, digest=rule["digest"]),
    ),
    "prefix": Convention(
        "write {prefix} in front of every path in the list of checksums",
        (
            "paths in lists of checksums begin with {prefix}",
            "the restore tool finds a path only with {prefix} in front",
            "each path of a list of checksums has {prefix} before it",
        ),
        _one_of("prefix", "copy/", "/vault/", "files:", "@", "../"),
        lambda plain, site_config, rule: replace(
            plain,
            line=lambda digest, path, size: f"{digest}  {rule['prefix']}{path}",
            list_steps=(f"sed 's#  #  {rule['prefix']}#'",),
        ),
    ),
    "sized": Convention(
        "begin every line of the list of checksums with the size of the file in bytes and {name}",
        (
            "a list of checksums tells sizes as well, with {name} behind them",
            "size and {name} stand before each checksum",
            "lines of a list of checksums start with size and {name}",
        ),
        _mark,
        lambda plain, site_config, rule: replace(
            plain,
            line=lambda digest, path, size: f"{size}{rule['mark']}{digest}  {path}",
            list_steps=(
                "while read -r sum path; do "
                f"""printf '%s{rule["mark"]}%s  %s\\n' "$(stat -c %s -- "$path")" "$sum" "$path"; done""",
            ),
        ),
    ),
    "apart": Convention(
        "do not keep hard links: each name becomes a file of its own",
        (
            "the vault knows no hard links, so every name has to be a file of its own",
            "hard links are given up in a backup",
            "two names of one file are two files in the copy",
        ),
        lambda draws, site_config: {},
        lambda plain, site_config, rule: replace(plain, apart=True),
    ),
    "spaces": Convention(
        "replace each space in the names of files in the copy by a {name}",
        (
            "names in a copy have a {name} where there was a space",
            "no file of a copy may have a space in its name, a {name} takes its place",
            "the tape robot reads a {name} instead of a space in names",
        ),
        _filler,
        lambda plain, site_config, rule: replace(
            plain,
            named=lambda path: path.replace(" ", rule["mark"]),
            steps=(_MOVED.format(which="-name '* *'", to=f"${{path// /{rule['mark']}}}"),),
        ),
    ),
    "small": Convention(
        "leave out all files of more than {limit} KiB",
        (
            "files of more than {limit} KiB are not backed up",
            "the vault takes files up to {limit} KiB",
            "a backup holds no file larger than {limit} KiB",
        ),
        _one_of("limit", 100, 256, 500, 512, 1000, 1024),
        lambda plain, site_config, rule: replace(
            plain,
            kept=lambda path, size: size <= 1024 * rule["limit"],
            steps=(f'find "$copy" -type f -size +{rule["limit"]}k -delete',),
        ),
    ),
    "filled": Convention(
        "leave out all empty files",
        (
            "empty files are not backed up",
            "a copy has no empty files",
            "the vault takes no file without a byte in it",
        ),
        lambda draws, site_config: {},
        lambda plain, site_config, rule: replace(
            plain, kept=lambda path, size: size > 0, steps=('find "$copy" -type f -empty -delete',)
        ),
        unseen=True,
    ),
    "counted": Convention(
        "write the number of regular files in the copy into backup/{file}, as the last thing",
        (
            "a backup counts as complete once {file} says how many files it has",
            "the monitor reads the number of files from {file}",
            "{file} beside the copy tells how many files are in it",
        ),
        _one_of("file", "COMPLETE", "FINISHED", "count.txt", "files.n", "STATUS"),
        lambda plain, site_config, rule: replace(
            plain, counted=rule["file"], steps=(f'find "$copy" -type f | wc -l > backup/{rule["file"]}',)
        ),
        unseen=True,
    ),
    "ending": Convention(
        "put .{ending} behind the name of every regular file in the copy",
        (
            "files of a copy end in .{ending}",
            "every file that was backed up has .{ending} behind its name",
            "the scanner leaves alone what ends in .{ending}, so all files of a copy do",
        ),
        _one_of("ending", "bak", "copy", "saved", "orig", "bk"),
        lambda plain, site_config, rule: replace(
            plain,
            named=lambda path: f"{path}.{rule['ending']}",
            steps=(_MOVED.format(which=f"! -name '*.{rule['ending']}'", to=f"$path.{rule['ending']}"),),
        ),
        unseen=True,
    ),
}

RULES = {
    name: RuleType(each.paraphrases, each.instruction, each.draw, each.unseen) for name, each in CONVENTIONS.items()
}
