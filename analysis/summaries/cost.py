"""Cost per solved task, including the reviews that write skills."""

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
    """One row per series, over the episodes of phase `learn`; held-out tasks are measurement and not counted.

    Tokens, seconds and `calls` (model calls) are sums including reviews; calls of child agents are excluded. `solved`
    counts first submissions that succeeded. `..._per_solved` divides a sum by `solved` (NA if nothing was solved), so
    it includes the cost of failures. The usage of errored attempts is not recorded. Token columns are NA if the model
    reported no usage, or not for every call.

    `price` is per million prompt tokens and per million completion tokens (`model.price`); `money` is NA without one.
    """
    whole = frame[(frame["phase"] == "learn") & (frame["status"] == "ok")]
    rows = [_cost(str(series), group, price) for series, group in whole.groupby(series_of(whole), sort=False)]
    missing = dict.fromkeys(TOKENS, "Int64") | dict.fromkeys(MAY_BE_MISSING, "Float64")
    return pd.DataFrame(rows, columns=COLUMNS).astype(missing)


def _cost(series: str, group: pd.DataFrame, price: tuple[float, float] | None) -> dict[str, object]:
    solved = int(group["success"].sum())
    prompt, completion, reviews = (int(group[name].sum()) for name in TOKENS[:3])
    unknown = group[["uncounted_calls", "uncounted_review_calls"]].to_numpy().any()
    tokens = 0 if unknown else prompt + completion + reviews
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
