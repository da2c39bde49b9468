"""The family `dropins`: put three settings of a service into a drop-in, by the convention of the site."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_text
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, TaskInstance, criterion, shell
from hermes_lab.tasks.system_admin._tree import Node, survey
from hermes_lab.tasks.system_admin.dropins.rules import RULES, DropIn, Wish, wanted


@dataclass(frozen=True)
class SiteConfig:
    """The configuration layout of a service."""

    parent: str
    """The folder of all configuration."""
    shipped: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    """Keys of counts, of times and of switches."""
    fresh: tuple[str, ...]
    tickets: str


@dataclass(frozen=True, kw_only=True)
class Change(TaskInstance):
    """One ticket. `folder` is the service's, with the main file and `conf.d`."""

    folder: str
    wish: Wish


class DropIns(DataFamily[SiteConfig, Change]):
    """Every requested drop-in has a number, a name, a count, a time and a switch."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The settings of a service."""
        words = self.words[entity.split]
        return SiteConfig(
            parent=draws.choice(words.folders),
            shipped=tuple(draws.sample(words.shipped, draws.integer(2, 4))),
            keys=(
                tuple(draws.sample(words.counts, 3)),
                tuple(draws.sample(words.times, 2)),
                tuple(draws.sample(words.switches, 2)),
            ),
            fresh=tuple(draws.sample(words.fresh, 3)),
            tickets=draws.choice(words.tickets),
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Change:
        """A ticket, and the present configuration."""
        folder = f"{site_config.parent}/{entity.slug('service')}"
        count, time, switch = map(draws.choice, site_config.keys)
        wish = Wish(
            ticket=f"{site_config.tickets}-{draws.integer(1000, 9999)}",
            name=draws.choice(site_config.fresh),
            number=10 * len(site_config.shipped) + 10,
            count=(count, draws.integer(11, 990)),
            seconds=(time, draws.integer(11, 290)),
            switch=(switch, draws.chance() < 0.5),
        )
        files = _files(site_config, folder, draws)
        told: dict[str, Any] = {
            "ticket": wish.ticket,
            "count": count,
            "n": wish.count[1],
            "time": time,
            "t": wish.seconds[1],
            "switch": switch,
            "state": "on" if wish.switch[1] else "off",
            "name": wish.name,
            "folder": f"{folder}/conf.d",
        }
        return Change(
            request=self.ask(entity, draws, folder, **told),
            files=files,
            inputs=tuple(files),
            outputs=(f"{folder}/conf.d",),
            folder=folder,
            wish=wish,
        )

    async def judge(
        self, instance: Change, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the new entries in the service's folder (name, mode, kind) and the settings."""
        right = wanted(instance.wish, rule)
        drop_ins = f"{instance.folder}/conf.d"
        tree = await survey(workspace, [instance.folder])
        new = {path: node for path, node in tree.items() if path not in instance.files and node.kind != "d"}
        path = f"{drop_ins}/{right.file}"
        added = [each for each, node in new.items() if each.startswith(f"{drop_ins}/") and node.kind == "f"]
        text = await read_text(workspace, path, limit=10_000)
        return (
            criterion("drop_in_present", bool(added), f"{drop_ins} has no new drop-in"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion("read", _is_laid(new, instance, right), "the service does not read the new drop-in", ruled=True),
            criterion(
                "effective",
                text is not None and _settings(text) == _settings("\n".join(right.lines)),
                "the service does not run with the new settings",
                ruled=True,
            ),
        )

    def solve(self, instance: Change, rule: Rule | None) -> tuple[Action, ...]:
        """Writes the drop-in and removes what an earlier attempt left."""
        right = wanted(instance.wish, rule)
        path = f"{instance.folder}/conf.d/{right.file}"
        text = "\n".join(right.lines)
        actions = [
            # `install` replaces the old file, which may not be writable.
            shell(f"install -m {right.mode or '644'} /dev/stdin {path} <<'EOF'\n{text}\nEOF", "I write the drop-in."),
            shell(
                f"find {instance.folder} -name '*{instance.wish.name}*' ! -path '{path}' -print -delete",
                "There must not be another one with that name.",
            ),
        ]
        if right.enabled:
            folder = f"{instance.folder}/{right.enabled}"
            link = f"ln -s ../conf.d/{right.file} {folder}/{right.file}"
            actions.append(shell(f"mkdir -p {folder} && {link}", "And the link to it."))
        return tuple(actions)


def _files(site_config: SiteConfig, folder: str, draws: Draws) -> dict[str, str]:
    """The main file, which sets everything, and drop-ins that override some of it."""

    def lines(count: str, time: str, switch: str) -> list[str]:
        state = "on" if draws.chance() < 0.5 else "off"
        return [f"{count} = {draws.integer(10, 999)}", f"{time} = {draws.integer(5, 300)}", f"{switch} = {state}"]

    counts, times, switches = site_config.keys
    main = [
        "# Times are seconds. Drop-ins in conf.d are read after this file, in the order of their names.",
        "# Config files of the service are writable by their owner and readable by everybody.",
        *(f"{key} = {draws.integer(10, 999)}" for key in counts),
        *(f"{key} = {draws.integer(5, 300)}" for key in times),
        *(f"{key} = {'on' if draws.chance() < 0.5 else 'off'}" for key in switches),
    ]
    files = {f"{folder}/main.conf": "\n".join(main) + "\n"}
    for number, name in enumerate(site_config.shipped, 1):
        body = lines(*map(draws.choice, site_config.keys))
        files[f"{folder}/conf.d/{number}0-{name}.conf"] = "\n".join([f"# {name}", *draws.sample(body, 2)]) + "\n"
    return files


def _is_laid(new: dict[str, Node], instance: Change, right: DropIn) -> bool:
    """Whether the only new entries are the drop-in, with its mode and one name, and the link to it."""
    path = f"{instance.folder}/conf.d/{right.file}"
    links = {f"{instance.folder}/{right.enabled}/{right.file}": f"../conf.d/{right.file}"} if right.enabled else {}
    node = new.get(path)
    return (
        new.keys() == {path, *links}
        and node is not None
        and (node.kind, node.links) == ("f", 1)
        and (node.mode == right.mode if right.mode else _is_open(int(node.mode, 8)))
        and all((new[link].kind, new[link].target) == ("l", target) for link, target in links.items())
    )


def _is_open(mode: int) -> bool:
    """Whether a mode follows main.conf: the owner may write and everybody may read. The umask decides the rest."""
    return mode & 0o604 == 0o604 and not mode & 0o7002


def _settings(text: str) -> tuple[list[str], list[str]]:
    """The section lines at the top, and the others sorted by key; comments and spacing do not matter."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if line and line[0] not in "#;"]
    head = list(takewhile(lambda line: line.startswith("["), lines))
    return head, sorted((line.replace(" =", "=").replace("= ", "=") for line in lines[len(head) :]), key=_key)


def _key(line: str) -> str:
    """The key of a line; a stable sort by it keeps a reset before its setting."""
    return line.partition("=")[0].strip("! ").removeprefix("unset ").removeprefix("clear ")


FAMILY = DropIns(__file__, RULES)
