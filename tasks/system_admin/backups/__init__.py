"""The family `backups`: write a script that makes a faithful copy, by the convention of the site."""

import json
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_bytes
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, TaskInstance, criterion, shell
from hermes_lab.tasks.system_admin.backups.rules import RULES, Backup, Copied, SiteConfig, copied, planned, script, sums
from hermes_lab.tasks.system_admin.backups.tree import TIME, Tree, draw_tree, grown, make_all, make_rest
from hermes_lab.tasks.words import read_file

SCRIPT = "bin/backup.sh"
LARGEST_SCRIPT = 50_000
SECONDS = 20.0

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Order(TaskInstance):
    """A request for a script. `tree` is what it finds, below `srv`."""

    site_config: SiteConfig
    tree: Tree


class Backups(DataFamily[SiteConfig, Order]):
    """Every tree has folders, links, hard links, holes, empty files, spaces and other odd names.

    The script runs twice in a folder of its own, on the tree as it might be a day later. A separate command lists the
    results while processes that the script started are stopped; the harness derives the right results from the tree.
    """

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The folders of a service."""
        words = self.words[entity.split]
        folders = tuple(draws.sample(words.folders, 3))
        return SiteConfig(entity.slug("service"), folders, draws.choice(words.skipped))

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Order:
        """A tree of about a dozen files."""
        tree = draw_tree(draws, self.words[entity.split], site_config.folders, site_config.skipped)
        source = f"srv/{site_config.slug}"
        files = {f"{source}/{each.path}": each.text for each in tree if not (each.hole or each.same or each.target)}
        told = {
            "script": SCRIPT,
            "source": source,
            "copy": f"backup/{site_config.slug}",
            "skipped": site_config.skipped,
            "sums": f"backup/{site_config.slug}.sums",
        }
        return Order(
            request=self.ask(entity, draws, SCRIPT, **told),
            files=files,
            setup=(make_rest(tree, source),),
            inputs=tuple(files)[:2],
            outputs=(SCRIPT,),
            site_config=site_config,
            tree=tree,
        )

    async def judge(
        self, instance: Order, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the results of two runs of the script."""
        right = planned(instance.site_config, rule)
        delivered = await read_bytes(workspace, SCRIPT, LARGEST_SCRIPT)
        codes, first, second = await _run_twice(instance, workspace) if delivered else ([], [], [])
        wanted = copied(right, instance.site_config, grown(instance.tree))
        return (
            criterion("script_present", bool(delivered), f"{SCRIPT} is missing, or not a plain file"),
            await inputs_untouched(workspace, instance.files, instance.files),
            criterion("runs", codes == ["0", "0"], f"{SCRIPT} does not run twice with exit code 0"),
            criterion(
                "repeatable", bool(second) and _lasting(first) == _lasting(second), "a second run changes something"
            ),
            criterion(
                "sparse",
                not any(row["full"] for row in second if row.get("size", 0) > 1 << 20),
                "holes are not preserved",
            ),
            criterion("copy", _is_copied(second, right, wanted), "a trial restore does not work", ruled=True),
            criterion(
                "sums", _is_listed(second, instance, right, wanted), "the checksums cannot be verified", ruled=True
            ),
        )

    def solve(self, instance: Order, rule: Rule | None) -> tuple[Action, ...]:
        """Writes the script and tries it."""
        content = script(instance.site_config, rule)
        tried = f"chmod 755 {SCRIPT} && ./{SCRIPT} && ./{SCRIPT} && cat backup/{instance.site_config.slug}.sums"
        return (
            Action("write_file", {"path": SCRIPT, "content": content}, "I write the script."),
            shell(tried, "Does it work, also a second time?"),
        )


async def _run_twice(instance: Order, workspace: Workspace) -> tuple[list[str], list[Row], list[Row]]:
    """The exit codes of two runs, and the entries of the backup folder after each."""
    folder = f"/tmp/.{secrets.token_hex(8)}"
    make = make_all(grown(instance.tree), f"srv/{instance.site_config.slug}")
    command = read_file(__file__, "run_twice.sh").format(place=folder, script=SCRIPT, make=make)
    run = await workspace.exec(command, SECONDS, fresh=True)
    program = shlex.quote(read_file(__file__, "listing.py"))
    told = await workspace.exec(f"/usr/bin/python3 -I -S -c {program} {folder}", SECONDS, fresh=True)
    try:
        first, second = json.loads(told.output)
    except ValueError:  # the listing is too long
        first, second = [], []
    return run.output.split(), first or [], second or []


def _lasting(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """What a second run must not change. Inodes and times may change, but not which names share a file."""
    names: dict[int, str] = {}
    for row in sorted(rows, key=lambda row: str(row["path"])):
        names.setdefault(row["inode"], row["path"])
    fields = ("path", "kind", "mode", "content")
    return sorted((*(str(row.get(field)) for field in fields), names[row["inode"]]) for row in rows)


def _is_copied(rows: Sequence[Row], right: Backup, wanted: Mapping[str, Copied]) -> bool:
    """Whether the copy has the right entries and no others."""
    inside = {row["path"].removeprefix(f"{right.copy}/"): row for row in rows if "/" in row["path"]}
    if inside.keys() != wanted.keys() or not all(row["path"].startswith(f"{right.copy}/") for row in inside.values()):
        return False
    groups: dict[str, set[str]] = {}
    for path, each in wanted.items():
        groups.setdefault(each.group, set()).add(path)
    for path, each in wanted.items():
        row = inside[path]
        if (row["kind"], row.get("content")) != (each.kind, each.content):
            return False
        if each.kind == "l":
            continue
        same = {other for other, its in inside.items() if its["inode"] == row["inode"]}
        if row["mode"] != each.mode or same != groups[each.group] or row["links"] != len(same):
            return False
        if row["time"] != TIME and not path.endswith(f".{right.link}"):
            return False
    return True


def _is_listed(rows: Sequence[Row], instance: Order, right: Backup, wanted: Mapping[str, Copied]) -> bool:
    """Whether the checksums and the count of files stand next to the copy, and nothing else."""
    beside = {row["path"]: str(row.get("text")) for row in rows if "/" not in row["path"]}
    list_ = beside.pop(f"{instance.site_config.slug}.sums", "")
    number = sum(each.kind == "f" for each in wanted.values())
    if {file: text.split() for file, text in beside.items()} != (
        {right.counted: [str(number)]} if right.counted else {}
    ):
        return False
    lines = sorted(line.replace("  ./", "  ", 1) for line in list_.split("\n") if line)
    return lines == sorted(sums(right, wanted.items()))


FAMILY = Backups(__file__, RULES)
