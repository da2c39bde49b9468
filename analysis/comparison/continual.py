"""Transfer and forgetting across a sequence of worlds.

R_ij is the success on the held-out tasks of block j after learning i blocks; row 0 is before any. With T blocks

    ACC        = mean_j R_Tj
    BWT        = mean_{j<T} (R_Tj - R_jj)                    backward transfer: effect of later blocks on earlier ones
    FWT        = mean_{j>=2} (R_{j-1,j} - R_0j)              forward transfer: effect of earlier blocks on later ones
    forgetting = mean_{j<T} (max_{1<=l<T} R_lj - R_Tj)

ACC, BWT and FWT follow Lopez-Paz and Ranzato (2017, Gradient Episodic Memory); forgetting follows Chaudhry et al.
(2018, Riemannian Walk), with blocks counted from 1. The maximum of noisy scores is biased upwards, so forgetting is
too; BWT is not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.stats.over_lanes import Estimate, draw_lanes, interval_of


@dataclass(frozen=True)
class Transfer:
    """Transfer measures of one series. `scores` is R, shape (T + 1, T), NaN where not measured; episodes have equal
    weight.

    `gain` is mean_j (R_Tj - R_0j): the effect of learning on the held-out tasks of the same worlds. `gap` is the
    generalisation gap: success on the last training tasks of the last block (per lane as many as it has held-out tasks
    there) minus success on the held-out tasks after learning. None is not measurable: one block has no BWT, FWT or
    forgetting. `over` is what the intervals are over: `20 runs`, `20 worlds`.
    """

    lanes: int
    over: str
    scores: Array
    acc: Estimate | None
    bwt: Estimate | None
    fwt: Estimate | None
    forgetting: Estimate | None
    gain: Estimate | None
    gap: Estimate | None

    @property
    def blocks(self) -> int:
        """The number of blocks T."""
        return int(self.scores.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """For JSON; null is not measured."""
        told = {name: getattr(self, name) for name in MEASURES}
        return {
            "lanes": self.lanes,
            "over": self.over,
            "scores": [[None if np.isnan(score) else float(score) for score in row] for row in self.scores],
            **{name: None if estimate is None else estimate.to_dict() for name, estimate in told.items()},
        }


MEASURES = ("acc", "bwt", "fwt", "forgetting", "gain", "gap")


def transfers(frame: pd.DataFrame) -> dict[str, Transfer]:
    """Transfer measures of every series with held-out checks."""
    names = series_of(frame)
    found = {str(name): transfer(group) for name, group in frame.groupby(names, sort=False)}
    return {name: one for name, one in found.items() if one is not None}


def transfer(frame: pd.DataFrame, *, seed: int = 0) -> Transfer | None:
    """Transfer measures of one series; None without held-out checks or training tasks.

    A check counts towards R_i if it directly follows the last round of block i (i = 0: before the first round).
    Intervals are over the series' clusters (`draw_lanes`, `interval_of`).
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
    # The round after each block, errored rows included. Row 0 is before any block.
    borders_L_I = np.full((len(lanes), blocks + 1), -1)
    borders_L_I[:, 0] = 0
    np.maximum.at(borders_L_I, (lanes.get_indexer(names[learnt.index]), learnt["block"] + 1), learnt["round"] + 1)
    lane_N = lanes.get_indexer(names[checks.index])
    at_N_I = borders_L_I[lane_N] == checks["round"].to_numpy()[:, None]
    stage_N = at_N_I.argmax(axis=1)
    place = tuple(part[at_N_I.any(axis=1)] for part in (lane_N, stage_N, checks["block"].to_numpy()))
    tried_L_I_J, solved_L_I_J = np.zeros((2, len(lanes), blocks + 1, blocks))
    np.add.at(tried_L_I_J, place, 1.0)
    np.add.at(solved_L_I_J, place, checks["success"].to_numpy(dtype=float)[at_N_I.any(axis=1)])
    weights_B_L, clusters, over = draw_lanes(checks, lane_N, seed)
    told = measures(_ratio(weights_B_L, solved_L_I_J, tried_L_I_J))
    last = learnt[(learnt["block"] == blocks - 1) & learnt["success"].notna()]
    late_L, late_tries_L = _late(last, names, lanes, tried_L_I_J[:, -1, -1])
    held_out_B = _ratio(weights_B_L, solved_L_I_J[:, -1, -1], tried_L_I_J[:, -1, -1])
    told["gap"] = _ratio(weights_B_L, late_L, late_tries_L) - held_out_B
    return Transfer(
        lanes=len(lanes),
        over=over,
        scores=_ratio(weights_B_L[:1], solved_L_I_J, tried_L_I_J)[0],
        **{name: _estimate(draws_B, clusters) for name, draws_B in told.items()},
    )


def _late(learnt: pd.DataFrame, names: pd.Series, lanes: pd.Index, wanted_L: Array) -> tuple[Array, Array]:
    """Solved and scored counts among each lane's last `wanted_L` training tasks, each of shape (L,)."""
    learnt = learnt.sort_values(["round", "place"])
    own = names[learnt.index]
    lane_N = lanes.get_indexer(pd.Index(own))
    last_N = own.groupby(own, sort=False).cumcount(ascending=False).to_numpy() < wanted_L[lane_N]
    outcomes_N = learnt["success"].to_numpy(dtype=float)[last_N]
    solved_L, tried_L = np.zeros((2, len(lanes)))
    np.add.at(solved_L, lane_N[last_N], outcomes_N)
    np.add.at(tried_L, lane_N[last_N], 1.0)
    return solved_L, tried_L


def measures(scores: Array) -> dict[str, Array]:
    """ACC, BWT, FWT, forgetting and gain of matrices R, shape (..., T + 1, T), each (...); NaN without data."""
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


def _ratio(weights_B_L: Array, hits_L: Array, tries_L: Array) -> Array:
    """The success rate in each draw, shape (B, ...); NaN without trials."""
    tries = np.tensordot(weights_B_L, tries_L, axes=1)
    hits = np.tensordot(weights_B_L, hits_L, axes=1)
    share: Array = np.divide(hits, tries, out=np.full_like(tries, np.nan), where=tries > 0)
    return share


def _estimate(draws_B: Array, clusters: int) -> Estimate | None:
    """The first draw is the original sample."""
    return None if np.isnan(draws_B[0]) else Estimate(float(draws_B[0]), interval_of(draws_B[1:], clusters))
