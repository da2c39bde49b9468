"""The base of all configuration sections."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen. An unknown field is an error, so that a typo cannot fall back to a default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, coerce_numbers_to_str=True, allow_inf_nan=False
    )
