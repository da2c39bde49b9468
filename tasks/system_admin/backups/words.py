"""What services keep, and how tickets about its backup read. The splits share nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    folders: tuple[str, ...]
    skipped: tuple[str, ...]
    """Folders that the ticket itself leaves out."""
    stems: tuple[str, ...]
    images: tuple[str, ...]
    """Sparse files."""
    scripts: tuple[str, ...]
    texts: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        folders=_words("data reports uploads keys mail pages"),
        skipped=_words("cache tmp"),
        stems=_words("price plan letter invoice draft list order table"),
        images=_words("disk.img store.db"),
        scripts=_words("start.sh clean.sh"),
        texts=_lines(
            """
            see the ticket for this
            first version, not checked
            nothing to add
            approved by both sides
            to be printed
            """
        ),
    ),
    "validation": Vocabulary(
        folders=_words("ledgers forms photos seals"),
        skipped=_words("scratch"),
        stems=_words("memo roster card ticket"),
        images=_words(
            "heap.bin",
        ),
        scripts=_words("prune.sh"),
        texts=_lines(
            """
            kept for the tax office
            copy of the signed one
            waiting for a stamp
            """
        ),
    ),
    "heldout": Vocabulary(
        folders=_words("dossiers scans contracts minutes maps"),
        skipped=_words("thumbs spool"),
        stems=_words("protocol receipt sketch survey offer index"),
        images=_words("volume.raw pool.dat"),
        scripts=_words("mount.sh sweep.sh"),
        texts=_lines(
            """
            agreed upon in spring
            the annex is missing
            second reading
            handed over in person
            """
        ),
    ),
}

REQUESTS: Mapping[str, Sequence[str]] = {
    "train": (
        "{place} has no backup. Write {script}: it copies {source} to {copy}, with modes, times, hard links and holes.",
        "Please write {script} for {place}. A run copies {source} to {copy} and keeps modes, times, hard links and "
        "holes.",
        "We need {script}, the nightly backup of {place}: {source} goes to {copy}, modes, times, hard links, holes and "
        "all.",
        "The backup of {place} was lost with the old server. Write {script} anew, from {source} to {copy}, so that "
        "modes, "
        "times, hard links and holes survive.",
        "For {place}, make a script {script} that backs {source} up as {copy}: same modes, times, hard links and "
        "holes.",
        "I want to run {script} each night and have {source} of {place} in {copy}, true to modes, times, hard links "
        "and "
        "holes. Write it.",
        "Back up {place}: a script {script} should leave in {copy} what is in {source}. Modes, times, hard links "
        "and holes "
        "matter.",
        "Cron is going to call {script} for {place}; it does not exist yet. Its job: copy {source} to {copy} as it is, "
        "modes, times, hard links, holes.",
    ),
    "validation": (
        "Nobody secures the files of {place}. Provide {script}, by which {source} gets to {copy}; rights, dates, "
        "shared "
        "inodes and sparse files are to be kept.",
        "Script wanted: {script} duplicates {source} ({place}) to {copy}, and rights, dates, shared inodes, sparse "
        "files "
        "stay what they are.",
        "{place} wants a duplicate of {source} in {copy} every evening, rights, dates, shared inodes and sparse files "
        "included, made by {script}. Provide it.",
    ),
    "heldout": (
        "The insurer asks how {place} is safeguarded. Let the answer be {script}, which mirrors {source} in {copy}, "
        "down "
        "to permissions, timestamps, multiply linked names and sparseness.",
        "A mirror of {source} at {copy} is what {place} lacks; {script} is to produce it, faithful in permissions, "
        "timestamps, multiply linked names and sparseness.",
        "Develop {script}, because {place} lacks one. It mirrors {source} at {copy}; permissions, timestamps, multiply "
        "linked names and sparseness are mirrored too.",
        "Should {source} burn down, {place} would like a mirror in {copy}. Have {script} mirror permissions, "
        "timestamps, "
        "multiply linked names and sparseness as well.",
        "{place} relies on {source}. Compose {script} so that {copy} mirrors it, including permissions, timestamps, "
        "multiply linked names, sparseness.",
    ),
}
CLOSINGS: Mapping[str, Sequence[str]] = {
    "train": (
        "Leave out the folder {skipped}. {sums} lists the files of the copy, as sha256sum prints them. It starts from "
        "here, "
        "and a second run changes nothing.",
        "Not {skipped}, that folder is worthless. Also it writes the lines of sha256sum for every file of the copy, "
        "paths "
        "from there, to {sums}. It runs here every night, so a second run must leave the same.",
        "The folder {skipped} stays behind. Checksums go to {sums}, in the form of sha256sum, with paths from inside "
        "the "
        "copy. Running it twice from here is the same as once.",
        "Without {skipped}, please. Have it write {sums} as well: sha256sum of each file, path relative to the copy. "
        "It is "
        "called from this folder, again and again, with the same outcome.",
    ),
    "validation": (
        "{skipped} is no part of it. A file {sums} gets what sha256sum says of each file in there, relative paths. "
        "Every "
        "further run from this folder has the same effect.",
        "Skip {skipped}; put relative paths with their sha256sum into {sums}; be repeatable, and start from this "
        "folder.",
    ),
    "heldout": (
        "It passes over {skipped}. For proof, {sums} shall contain the output of sha256sum over all mirrored files, "
        "named "
        "from the mirror's top. One may repeat it from where you are without any difference.",
        "{skipped} need not be mirrored. Beside it belongs {sums}: one line of sha256sum a file, seen from the "
        "mirror's "
        "top. It is launched where you are, and a repetition alters nothing.",
        "Except for {skipped}. And {sums} is to carry sha256sum's lines of the mirrored files, seen from inside. "
        "Launched "
        "here twice, it ends in the same state.",
    ),
}
