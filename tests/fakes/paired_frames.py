"""Frames in the format of `load_episodes` from simulated experiments with known effects; a thousand take a minute."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd


def experiment(
    rates: Mapping[str, float],
    *,
    lanes: int,
    tasks: int,
    luck: float = 0.0,
    difficulty: float = 1.2,
    slope: float = 0.0,
    weights: int = 1,
    weights_effect: float = 0.0,
    worlds: int = 1,
    world_luck: float = 0.0,
    common: float | None = None,
    seed: int,
) -> pd.DataFrame:
    """A learning run: `rates` gives the success of each arm on a task of middling difficulty.

    Every lane has `tasks` tasks, the same ones in all arms. On the logit scale `difficulty` is the standard deviation
    of tasks and `luck` that of lanes, drawn anew for each arm of a replicate, as early captures of a rule are; `slope`
    is the gain from a task to the next, and `weights_effect` that of the second set of weights.

    The lanes are replicates of `worlds` worlds, as many of each. `world_luck` is the standard deviation of worlds,
    drawn anew for each arm: what an arm happens to be worth there. With `common` replicates of a world share their
    tasks, and that share of all outcomes is the same in all of them, whatever a lane's luck; without it each has
    tasks of its own.
    """
    draw = np.random.default_rng(seed)
    world_L = np.arange(lanes) * worlds // lanes
    first_L = np.searchsorted(world_L, world_L)  # the first lane of each lane's world
    hard_L_T = difficulty * draw.standard_normal((lanes, tasks))
    if common is not None:
        hard_L_T = hard_L_T[first_L]
    columns = []
    for arm, rate in rates.items():
        for which in range(weights):
            logit_L_T = np.log(rate / (1 - rate)) + hard_L_T + slope * np.arange(tasks) + weights_effect * which
            if world_luck:
                logit_L_T = logit_L_T + world_luck * draw.standard_normal(worlds)[world_L, None]
            own_L_T = logit_L_T + luck * draw.standard_normal((lanes, 1))
            success_L_T = draw.random((lanes, tasks)) < 1 / (1 + np.exp(-own_L_T))
            if common is not None:
                copied_L_T = (draw.random((lanes, tasks)) < common)[first_L]
                alike_L_T = (draw.random((lanes, tasks)) < 1 / (1 + np.exp(-logit_L_T)))[first_L]
                success_L_T = np.where(copied_L_T, alike_L_T, success_L_T)
            columns.append(_rows(success_L_T, arm, which, world_L, first_L if common is not None else np.arange(lanes)))
    return pd.concat(columns, ignore_index=True)


def _rows(
    success_L_T: npt.NDArray[np.bool_],
    arm: str,
    weights: int,
    world_L: npt.NDArray[np.intp],
    tasks_L: npt.NDArray[np.intp],
) -> pd.DataFrame:
    """`tasks_L` is the lane whose tasks each lane shares."""
    lanes, tasks = success_L_T.shape
    lane = np.repeat(np.arange(lanes), tasks)
    task = np.tile(np.arange(tasks), lanes)
    names = np.array([[f"r{r}-t{t}" for t in range(tasks)] for r in tasks_L]).ravel()
    return pd.DataFrame(
        {
            "run": "run",
            "suite": "demo",
            "task_id": names,
            "lane": np.array([f"{arm}-r{r}-w{w}-a{weights}" for r, w in enumerate(world_L)])[lane],
            "arm": arm,
            "replicate": lane,
            "world": world_L[lane],
            "weights": weights,
            "round": task,
            "sample": 0,
            "phase": "learn",
            "experience": task,
            "status": "ok",
            "error_kind": "",
            # The treatment happened: without it arms are not compared.
            **{"stop_reason": "answered", "iterations": 3, "reviewed": True, "review_error": ""},
            **{"skills_written": 1, "notes_written": 0, "skills_listed": 1, "skills_loaded": 1},
            **{"skills_usable": 1, "skills_followed": 1, "noted": False},
            "model": "m",
            "adapter": ["", "tuned-0123"][weights],
            "adapter_digest": ["", "d"][weights],
            "success": pd.array(success_L_T.ravel(), dtype="boolean"),
            "accepted": pd.array([None] * lanes * tasks, dtype="boolean"),
            "first_call_ok": pd.array([None] * lanes * tasks, dtype="boolean"),
        }
    )
