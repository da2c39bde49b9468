"""The family `rotation`: rotate a full log by hand, by the convention of the site."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_bytes
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, TaskInstance, criterion, shell
from hermes_lab.tasks.system_admin._tree import Node, survey
from hermes_lab.tasks.system_admin.rotation.rules import RULES, After, Before, Old, rotated
from hermes_lab.tasks.words import load_words

MONTHS = load_words(__file__, tuple[str, ...], "months")
CONFIG = load_words(__file__, str, "config")
UNDO = "( test -d .undo || {{ mkdir .undo && cp -a --parents {0} .undo; }}; rm -rf {0}; cp -a .undo/* . )"


@dataclass(frozen=True)
class SiteConfig:
    """The log layout of a service."""

    root: str
    log: str
    other: str
    held: str
    kept: int
    mode: str


@dataclass(frozen=True, kw_only=True)
class Turn(TaskInstance):
    """One rotation. `folder` holds the log; `held` is a second name of it: the file that the writer holds open."""

    folder: str
    held: str
    before: Before

    @property
    def run(self) -> str:
        """The folder of the file that the writer holds open."""
        return self.held.rpartition("/")[0]


class Rotation(DataFamily[SiteConfig, Turn]):
    """Every log has as many old ones as are kept, and a writer that holds it open. A hard link in `run` stands for the
    writer's descriptor: it tells a renamed log from an emptied one."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The names and modes of a service's logs."""
        words = self.words[entity.split]
        return SiteConfig(
            root=draws.choice(words.roots),
            log=f"{draws.choice(words.logs)}.log",
            other=f"{draws.choice(words.others)}.log",
            held=draws.choice(words.held),
            kept=draws.integer(3, 5),
            mode=draws.choice(("640", "644", "660")),
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Turn:
        """A log of 40 to 70 lines, its old ones, and an unrelated one."""
        slug = entity.slug("service")
        folder, run, config = f"{site_config.root}/{slug}", f"run/{slug}", f"etc/logrotate.d/{slug}"
        lines = self.words[entity.split].lines
        text, *olds = (_log(draws, lines, *size) for size in [(40, 70), *[(4, 9)] * site_config.kept])
        year, month, day = draws.integer(2019, 2031), draws.integer(1, 12), draws.integer(1, 28)
        path = f"{folder}/{site_config.log}"
        files = {
            config: CONFIG.format(path=path, kept=site_config.kept, mode=site_config.mode),
            f"{folder}/{site_config.other}": _log(draws, lines, 3, 6),
            path: text,
            **{f"{path}.{n}": old for n, old in enumerate(olds, 1)},
        }
        told = {"path": path, "config": config, "date": f"{day} {MONTHS[month - 1]} {year}"}
        return Turn(
            request=self.ask(entity, draws, path, config, **told),
            files=files,
            setup=(f"mkdir -p {run} && ln {path} {run}/{site_config.held} && chmod {site_config.mode} {path}*",),
            inputs=(config, f"{folder}/{site_config.other}"),
            outputs=(path,),
            folder=folder,
            held=f"{run}/{site_config.held}",
            before=Before(site_config.log, text, tuple(olds), site_config.mode, (year, month, day)),
        )

    async def judge(
        self, instance: Turn, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges everything in the folder of the log, and the file that the writer holds open."""
        right = rotated(instance.before, rule)
        path = f"{instance.folder}/{instance.before.log}"
        tree = await survey(workspace, [instance.folder, instance.run])
        files = {path: node for path, node in tree.items() if node.kind != "d"}
        log = await read_bytes(workspace, path)
        return (
            criterion(
                "rotated",
                log is not None and log != instance.before.text.encode(),
                f"{path} is missing or unchanged",
            ),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion(
                "current",
                log == right.head.encode() and await _is_held(workspace, instance, files, right),
                "the service does not continue logging correctly",
                ruled=True,
            ),
            criterion(
                "old",
                _are_named(files, instance, right) and await _hold(workspace, instance, right),
                "the old logs are not right",
                ruled=True,
            ),
        )

    def solve(self, instance: Turn, rule: Rule | None) -> tuple[Action, ...]:
        """Copies all logs, or restores them from that copy; then runs one command in the folder of the log."""
        before, right = instance.before, rotated(instance.before, rule)
        steps = [*_shift(before, right), *_finish(before, right)]
        actions = [
            shell(
                UNDO.format(f"{instance.folder} {instance.run}"),
                "A copy first, as the start of every attempt.",
            ),
            shell(f"( cd {instance.folder} && {' && '.join(steps)} )", "Now the rotation, last one first."),
        ]
        if right.flag:
            actions.append(shell(f"touch {instance.run}/{right.flag}", "Tell the writer."))
        return tuple(actions)


def _log(draws: Draws, lines: Sequence[str], low: int, high: int) -> str:
    """Lines of a log, in chronological order."""
    second, made = draws.integer(0, 40_000), []
    for _ in range(draws.integer(low, high)):
        second += draws.integer(1, 600)
        made.append(f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} {draws.choice(lines)}\n")
    return "".join(made)


def _shift(before: Before, right: After) -> list[str]:
    """Commands that rename the old logs, from the last to the first, and put the log itself away."""
    sources = [before.log, *(f"{before.log}.{n}" for n in range(1, len(before.olds) + 1))]
    targets = [old.name.removesuffix(".gz") for old in right.olds]
    steps = [f"rm {' '.join(sources[len(targets) :])}"]
    folder = targets[0].rpartition("/")[0]
    steps += [f"mkdir {folder}"] if folder else []
    kept = list(zip(sources, targets, strict=False))[::-1]
    steps += [f"mv {source} {target}" for source, target in kept[:-1] if source != target]
    return [*steps, f"{'cp -p' if right.in_place else 'mv'} {before.log} {targets[0]}"]


def _finish(before: Before, right: After) -> list[str]:
    """Commands that start the new log and bring the old ones into their form."""
    newest = right.olds[0].name
    names = {old.name.removesuffix(".gz"): old for old in right.olds}
    if not right.head:
        steps = [f": > {before.log}"]
    elif right.head in before.text:
        steps = [f"tail -n {right.head.count(chr(10))} {newest} > {before.log}"]
    else:
        steps = [f"echo '{right.head.strip()}' > {before.log}"]
    steps.append(f"chmod {before.mode} {before.log}")
    if right.note:
        unit = "-l" if right.note[1] == f"{before.text.count(chr(10))}\n" else "-c"
        steps.append(f"wc {unit} < {newest} > {right.note[0]}")
    if right.olds[0].mode != before.mode:
        steps.append(f"chmod {right.olds[0].mode} {' '.join(names)}")
    zipped = [name for name, old in names.items() if old.zipped]
    return [*steps, f"gzip -nf {' '.join(zipped)}"] if zipped else steps


async def _is_held(workspace: Workspace, instance: Turn, files: Mapping[str, Node], right: After) -> bool:
    """Whether the writer holds the right file, and the log has its mode and no further name."""
    log, held = files.get(f"{instance.folder}/{instance.before.log}"), files.get(instance.held)
    beside = {instance.held, *([f"{instance.run}/{right.flag}"] if right.flag else [])}
    if log is None or held is None or {path for path in files if path.startswith(f"{instance.run}/")} != beside:
        return False
    if (log.kind, log.mode, held.kind) != ("f", instance.before.mode, "f"):
        return False
    if right.in_place:
        return log.inode == held.inode and log.links == 2
    return log.links == 1 and await read_bytes(workspace, instance.held) == instance.before.text.encode()


def _are_named(files: Mapping[str, Node], instance: Turn, right: After) -> bool:
    """Whether the folder of the log has exactly the right files, with their modes."""
    modes = {instance.before.log: instance.before.mode, **{old.name: old.mode for old in right.olds}}
    known = {f"{instance.folder}/{name}" for name in modes} | {instance.inputs[1]}
    if right.note:
        known.add(f"{instance.folder}/{right.note[0]}")
    return {path for path in files if path.startswith(f"{instance.folder}/")} == known and all(
        (files[f"{instance.folder}/{name}"].kind, files[f"{instance.folder}/{name}"].mode) == ("f", mode)
        for name, mode in modes.items()
    )


async def _hold(workspace: Workspace, instance: Turn, right: After) -> bool:
    """Whether the old logs have the right content, and the note its number."""
    for old in right.olds:
        data = await read_bytes(workspace, f"{instance.folder}/{old.name}")
        if data is None or not _holds(data, old):
            return False
    if right.note is None:
        return True
    note = await read_bytes(workspace, f"{instance.folder}/{right.note[0]}", limit=100)
    return note is not None and note.split() == right.note[1].encode().split()


def _holds(data: bytes, old: Old) -> bool:
    text = old.text.encode()
    if not old.zipped:
        return data == text
    stream = zlib.decompressobj(wbits=31)  # gzip
    try:
        return stream.decompress(data, len(text) + 1) == text and stream.eof
    except zlib.error:
        return False


FAMILY = Rotation(__file__, RULES)
