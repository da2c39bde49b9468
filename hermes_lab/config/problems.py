"""All mistakes of configuration sources at once; loading reports the first one only."""

from collections.abc import Collection, Sequence
from typing import Any

from pydantic import ValidationError

from hermes_lab.config.applies import ignored_fields
from hermes_lab.config.paths import Problem
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.sources import Merged, problems_of
from hermes_lab.errors import ConfigError


def find_problems(schema: type[Section], sources: Sequence[str], optional: Collection[str] = ()) -> list[Problem]:
    """Everything that is wrong with the merged sources, in the order of the schema.

    `optional` names required fields that may be missing.
    """
    merged, found = Merged(schema, None), []
    for source in sources:
        try:
            merged.add(source)
        except ConfigError as error:
            found.append(Problem(source, "", str(error)))
    return [*found, *problems_of_merged(schema, merged, optional)]


def problems_of_merged(schema: type[Section], merged: Merged, optional: Collection[str] = ()) -> list[Problem]:
    """As `find_problems`, for sources that are merged already. Wrong values are taken out of `merged`."""
    found: list[Problem] = []
    merged.resolve_paths()
    dropped: list[str] = []
    # pydantic does not look into a section that is itself wrong: take out what is wrong, and look again.
    while True:
        try:
            config = schema.model_validate(merged.values)
        except ValidationError as error:
            found += problems_of(schema, error, merged)
            places = [place for one in error.errors() if (place := _drop(merged.values, one["loc"]))]
            dropped += places
            if not places:
                break
        else:
            if isinstance(config, RunConfig):
                found += [
                    merged.shown(problem)
                    for problem in ignored_fields(config, merged.origins)
                    if not any(_depends(problem, place) for place in dropped)
                ]
            break
    found += merged.paths.problems.values()
    missing = {f"{field}: is required" for field in optional}
    return [problem for problem in dict.fromkeys(found) if problem.message not in missing]


def _depends(problem: Problem, dropped: str) -> bool:
    """Whether the field is ignored only because a wrong value, such as an unknown provider, was taken out."""
    section = dropped.partition(".")[0]
    return problem.field.partition(".")[0] == section and not problem.field.startswith(f"{dropped}.")


def _drop(values: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """Removes the value at that location, or the whole list around it. Returns its path, "" if it is not there."""
    at: Any = values
    path = [part for n, part in enumerate(location) if not any(isinstance(each, int) for each in location[: n + 1])]
    for part in path[:-1]:
        at = at.get(part) if isinstance(at, dict) else None
    if not path or not isinstance(at, dict) or path[-1] not in at:
        return ""
    del at[path[-1]]
    return ".".join(map(str, path))
