"""A window of success rates, given by two fields."""

from pydantic import ValidationInfo


def above_min_success(highest: float, info: ValidationInfo) -> float:
    """Validates a field `max_success` that comes after `min_success`."""
    lowest = info.data.get("min_success", 0.0)
    if highest <= lowest:
        raise ValueError(f"must be above min_success, which is {lowest:g}")
    return highest
