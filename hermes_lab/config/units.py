"""Units of configuration fields, for the documentation of the schema."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """Marks the unit of a numeric field: `Annotated[float, Unit("seconds")]`."""

    name: str
