"""`export`: writes a run's episodes in other formats."""

from pathlib import Path
from typing import Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.bar import progress_bar
from hermes_lab.runners.export import FORMATS, Name
from hermes_lab.runners.export.format import Folder
from hermes_lab.runners.export.output import STDOUT, check_out, new_folder, write_lines
from hermes_lab.runners.export.source import Budget, Source

_COMPRESSED: tuple[Name, ...] = ("sft", "openai", "hermes")
_FORMATS = "\n\n".join(f"{name}: {format.about}" for name, format in FORMATS.items())


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "export",
        help=f"Export a run's episodes for analysis, training or publication.\n\n{_FORMATS}\n\n"
        "hermes-lab export runs/first --format openai -o first.jsonl\n\n"
        "hermes-lab export runs/first --format hf -o first-dataset\n\n"
        "hermes-lab export runs/first --format sft --max-tokens 15250 -o short.jsonl\n\n"
        "hermes-lab export $HERMES_HOME/chats --format preference --consent -o preferences.jsonl   (turns of chats)",
    )(export)


def export(
    run: options.Run,
    format: Annotated[Name, typer.Option("--format", help="The output format.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The file or folder to write; - for standard output.", show_default=False),
    ],
    max_tokens: Annotated[
        int,
        typer.Option("--max-tokens", min=0, help="Compress longer conversations (sft, openai, hermes); 0: no limit."),
    ] = 0,
    tokenizer: Annotated[
        str, typer.Option(help="The tokenizer for --max-tokens: `packaged`, a folder, or a hub id.")
    ] = "packaged",
    consent: Annotated[
        bool,
        typer.Option(
            "--consent",
            help="Also export turns of chats recorded without `chat.consent`, if everyone who wrote in them agrees.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier export.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab export`."""
    from hermes_lab.manifest import read_manifest

    chosen = FORMATS[format]
    wanted = read_manifest(run).wanted
    if max_tokens and format not in _COMPRESSED:
        raise ConfigError(f"--max-tokens: not supported by {format}; supported by {', '.join(_COMPRESSED)}")
    check_out(out, run, folder=isinstance(chosen, Folder), force=force)
    budget = _budget(max_tokens, tokenizer) if max_tokens else None
    with progress_bar("episodes", wanted, shown=not quiet and out != STDOUT) as seen:
        source = Source(run, seen, budget, consent=consent)
        if isinstance(chosen, Folder):
            with new_folder(out) as folder:
                count = chosen.write(source, folder)
        else:
            count = write_lines(chosen.rows(source), out)
    if not quiet:
        where = "standard output" if out == STDOUT else out
        compressed = f", {source.compressed} of them compressed" if budget else ""
        output.say(f"{count} rows in {where}{compressed}{_left_out(source)}")


def _budget(max_tokens: int, tokenizer: str) -> Budget:
    from hermes_lab.training.compress import named_tokenizer

    return Budget(max_tokens, named_tokenizer(tokenizer))


def _left_out(source: Source) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(source.left_out.items()))
    return f"; episodes left out: {reasons}" if reasons else ""
