"""Versions of the lab's own tasks. They precede the digest of tasks in `run.json`, such as `3:9f2c...`.

A version is raised when the texts of all families change, so that runs say which texts they had:

1: no version in the digest, which contained names of classes.
2: the same tasks, with a digest that leaves out objects of the lab's own classes.
3: prompts, files, rules and feedback in plain English.

Other tasks, such as those of a file, have no version.
"""

CURRENT = 3


def with_version(digest: str) -> str:
    """A digest of the lab's own tasks."""
    return f"{CURRENT}:{digest}"


def tasks_version(digest: str) -> str:
    """The version in a digest of tasks, or ""."""
    version, colon, _ = digest.partition(":")
    return version if colon else ""


def other_versions(earlier: str, now: str) -> tuple[str, str] | None:
    """The versions of two digests, if they differ."""
    was, is_ = (tasks_version(digest) or "1" for digest in (earlier, now))
    return (was, is_) if earlier and now and was != is_ else None
