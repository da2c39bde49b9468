"""Transfer and forgetting: what lanes that go through several worlds know of each, before and after every one.

R_ij is the success on the held-out tasks of block j once i blocks were learnt; row 0 is before any. With T blocks

    ACC        = mean_j R_Tj
    BWT        = mean_{j<T} (R_Tj - R_jj)                    what later blocks did to earlier ones
    FWT        = mean_{j>=2} (R_{j-1,j} - R_0j)              what earlier blocks did for later ones
    forgetting = mean_{j<T} (max_{1<=l<T} R_lj - R_Tj)

ACC, BWT and FWT are of Lopez-Paz and Ranzato (2017, Gradient Episodic Memory); forgetting is of Chaudhry et al. (2018,
Riemannian Walk), with blocks counted from 1. A maximum of noisy scores is too high on average, so forgetting is biased
upwards; BWT is not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.stats.bootstrap import cluster_weights
from hermes_lab.analysis.stats.over_lanes import DRAWS, Estimate, interval_of


@dataclass(frozen=True)
class Transfer:
    """One series' transfer. `scores` is R, shape (T + 1, T), NaN where nothing was measured; it weighs episodes alike.

    `gain` is mean_j (R_Tj - R_0j), what learning did for the held-out tasks of its own worlds. `gap` is the success of
    the last tasks of the last block, as many of each lane as it has held-out tasks of that block, less that of those
    after learning: what does not carry over to tasks that nothing was learnt from. None is what cannot be told: of one
    block there is no BWT, FWT or forgetting.
    """

    lanes: int
    scores: Array
    acc: Estimate | None
    bwt: Estimate | None
    fwt: Estimate | None
    forgetting: Estimate | None
    gain: Estimate | None
    gap: Estimate | None

    @property
    def blocks(self) -> int:
        """T."""
        return int(self.scores.shape[1])

    def report(self) -> dict[str, Any]:
        """For JSON; null is what was not measured."""
        told = {name: getattr(self, name) for name in MEASURES}
        return {
            "lanes": self.lanes,
            "scores": [[None if np.isnan(score) else float(score) for score in row] for row in self.scores],
            **{name: None if estimate is None else estimate.report() for name, estimate in told.items()},
        }


MEASURES = ("acc", "bwt", "fwt", "forgetting", "gain", "gap")


def transfers(frame: pd.DataFrame) -> dict[str, Transfer]:
    """The transfer of every series that has held-out checks."""
    names = series_of(frame)
    found = {str(name): transfer(group) for name, group in frame.groupby(names, sort=False)}
    return {name: one for name, one in found.items() if one is not None}


def transfer(frame: pd.DataFrame, *, seed: int = 0) -> Transfer | None:
    """The transfer of one series; None where it has no held-out check, or nothing to learn from.

    A check counts for R_i where it comes right after the last round of the i-th block (i = 0: before the first round).
    Intervals are over lanes, as `interval_of` says.
    """
    names = frame["run"] + "\n" + frame["lane"]
    judged = (frame["status"] == "ok") & frame["success"].notna()
    held_out = frame["phase"] == "heldout"
    checks, learnt = frame[judged & held_out], frame[~held_out]
    if checks.empty or learnt.empty:
        return None
    lanes = pd.Index(names[checks.index].unique())
    learnt = learnt[names[learnt.index].isin(lanes)]
    blocks = 1 + int(max(learnt["block"].max(), checks["block"].max()))
    # The round after each block, by all its rows: one that errored was a round. Row 0 is before any block.
    borders_C_I = np.full((len(lanes), blocks + 1), -1)
    borders_C_I[:, 0] = 0
    np.maximum.at(borders_C_I, (lanes.get_indexer(names[learnt.index]), learnt["block"] + 1), learnt["round"] + 1)
    lane_N = lanes.get_indexer(names[checks.index])
    at_N_I = borders_C_I[lane_N] == checks["round"].to_numpy()[:, None]
    stage_N = at_N_I.argmax(axis=1)
    place = tuple(part[at_N_I.any(axis=1)] for part in (lane_N, stage_N, checks["block"].to_numpy()))
    tried_C_I_J, solved_C_I_J = np.zeros((2, len(lanes), blocks + 1, blocks))
    np.add.at(tried_C_I_J, place, 1.0)
    np.add.at(solved_C_I_J, place, checks["success"].to_numpy(dtype=float)[at_N_I.any(axis=1)])
    weights_B_C = np.vstack([np.ones(len(lanes)), cluster_weights(len(lanes), DRAWS, seed)])
    told = measures(_ratio(weights_B_C, solved_C_I_J, tried_C_I_J))
    last = learnt[(learnt["block"] == blocks - 1) & learnt["success"].notna()]
    late_C, late_tries_C = _late(last, names, lanes, tried_C_I_J[:, -1, -1])
    held_out_B = _ratio(weights_B_C, solved_C_I_J[:, -1, -1], tried_C_I_J[:, -1, -1])
    told["gap"] = _ratio(weights_B_C, late_C, late_tries_C) - held_out_B
    return Transfer(
        lanes=len(lanes),
        scores=_ratio(weights_B_C[:1], solved_C_I_J, tried_C_I_J)[0],
        **{name: _estimate(draws_B, len(lanes)) for name, draws_B in told.items()},
    )


def _late(learnt: pd.DataFrame, names: pd.Series, lanes: pd.Index, wanted_C: Array) -> tuple[Array, Array]:
    """Of each lane's last tasks learnt from, so many, how many were solved and tried, shape (C,) both."""
    learnt = learnt.sort_values(["round", "place"])
    own = names[learnt.index]
    lane_N = lanes.get_indexer(pd.Index(own))
    last_N = own.groupby(own, sort=False).cumcount(ascending=False).to_numpy() < wanted_C[lane_N]
    outcomes_N = learnt["success"].to_numpy(dtype=float)[last_N]
    solved_C, tried_C = np.zeros((2, len(lanes)))
    np.add.at(solved_C, lane_N[last_N], outcomes_N)
    np.add.at(tried_C, lane_N[last_N], 1.0)
    return solved_C, tried_C


def measures(scores: Array) -> dict[str, Array]:
    """ACC, BWT, FWT, forgetting and gain of matrices R, shape (..., T + 1, T), each of shape (...); NaN where there is
    nothing to average."""
    before, rows = scores[..., 0, :], scores[..., 1:, :]
    last = rows[..., -1, :]
    own = np.diagonal(rows, axis1=-2, axis2=-1)
    earlier = np.diagonal(rows, offset=1, axis1=-2, axis2=-1)  # R_{j-1,j} for j = 2..T
    if rows.shape[-1] < 2:
        nothing = np.full(scores.shape[:-2], np.nan)
        bwt = fwt = forgetting = nothing
    else:
        bwt = (last - own)[..., :-1].mean(axis=-1)
        fwt = (earlier - before[..., 1:]).mean(axis=-1)
        forgetting = (rows[..., :-1, :].max(axis=-2) - last)[..., :-1].mean(axis=-1)
    return {
        "acc": last.mean(axis=-1),
        "bwt": bwt,
        "fwt": fwt,
        "forgetting": forgetting,
        "gain": (last - before).mean(axis=-1),
    }


def _ratio(weights_B_C: Array, hits_C: Array, tries_C: Array) -> Array:
    """Of draws of lanes, the share of hits, shape (B, ...); NaN where nothing was tried."""
    tries = np.tensordot(weights_B_C, tries_C, axes=1)
    hits = np.tensordot(weights_B_C, hits_C, axes=1)
    share: Array = np.divide(hits, tries, out=np.full_like(tries, np.nan), where=tries > 0)
    return share


def _estimate(draws_B: Array, lanes: int) -> Estimate | None:
    """The first draw is the data's own."""
    return None if np.isnan(draws_B[0]) else Estimate(float(draws_B[0]), interval_of(draws_B[1:], lanes))
