"""What a solved task costs, the reviews that write skills included."""

import pandas as pd

from hermes_lab.analysis.data.series import series_of

COLUMNS = (
    *("series", "episodes", "solved", "prompt_tokens", "completion_tokens", "review_tokens", "tokens", "seconds"),
    *("review_seconds", "calls", "tokens_per_solved", "seconds_per_solved", "calls_per_solved", "money"),
    "money_per_solved",
)
TOKENS = ("prompt_tokens", "completion_tokens", "review_tokens", "tokens")
MAY_BE_MISSING = ("tokens_per_solved", "seconds_per_solved", "calls_per_solved", "money", "money_per_solved")


def costs(frame: pd.DataFrame, price: tuple[float, float] | None = None) -> pd.DataFrame:
    """A row for each series, over the episodes of the phase `learn`: held-out tasks are measurement, and no work.

    Sums: tokens and seconds include those of reviews, `calls` are model calls, those of reviews included, and of child
    agents not. `solved` counts first submissions that were right. `..._per_solved` is a sum over `solved`, NA where
    nothing was solved: failures are paid for, too, so it is more than the mean of the solved ones. What an errored
    attempt used before it was stopped is in no record, and in no sum. Where the model reported no usage at all, what is
    made of tokens is NA.

    `price` is that of a million prompt tokens and of a million completion tokens (`model.price`); `money` is NA
    without one.
    """
    whole = frame[(frame["phase"] == "learn") & (frame["status"] == "ok")]
    rows = [_cost(str(series), group, price) for series, group in whole.groupby(series_of(whole), sort=False)]
    missing = dict.fromkeys(TOKENS, "Int64") | dict.fromkeys(MAY_BE_MISSING, "Float64")
    return pd.DataFrame(rows, columns=COLUMNS).astype(missing)


def _cost(series: str, group: pd.DataFrame, price: tuple[float, float] | None) -> dict[str, object]:
    solved = int(group["success"].sum())
    prompt, completion, reviews = (int(group[name].sum()) for name in TOKENS[:3])
    tokens = prompt + completion + reviews
    spent: dict[str, object] = {
        "tokens": tokens or pd.NA,
        "seconds": float(group["seconds"].sum() + group["review_seconds"].sum()),
        "calls": int(group["api_calls"].sum() + group["review_calls"].sum()),
        "money": pd.NA,
    }
    if price is not None and tokens:
        written = int(group["review_completion_tokens"].sum())
        spent["money"] = ((prompt + reviews - written) * price[0] + (completion + written) * price[1]) / 1e6
    return {
        "series": series,
        "episodes": len(group),
        "solved": solved,
        "prompt_tokens": prompt if tokens else pd.NA,
        "completion_tokens": completion if tokens else pd.NA,
        "review_tokens": reviews if tokens else pd.NA,
        "review_seconds": float(group["review_seconds"].sum()),
        **spent,
        **{f"{name}_per_solved": _per(amount, solved) for name, amount in spent.items()},
    }


def _per(amount: object, solved: int) -> object:
    return amount / solved if solved and isinstance(amount, int | float) else pd.NA
