"""What the bootstrap of five learning curves costs, and how that compares with a loop over a general optimiser.

python tests/benchmarks/bench_fit.py

Both refit the same resampled counts of 5 domains x 20 runs x 100 tasks, from the same start, to the same maximum. The
loop is scipy's L-BFGS-B, one refit after the other, with the analytic gradient and without one; it is timed on a sample
and extrapolated. CPU time of one core.
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.fit import fit_curve
from hermes_lab.analysis.fitting.likelihood import Counts, maximize, unbounded
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.stats.bootstrap import cluster_weights

RUNS, TASKS, DRAWS, SAMPLE = 20, 100, 2_000, 100
DOMAINS = ((0.45, 0.89, 0.08), (0.38, 0.85, 0.07), (0.42, 0.84, 0.04), (0.35, 0.82, 0.06), (0.50, 0.90, 0.05))
"""initial, asymptote and rate."""
CURVE = Exponential()


def episodes(domain: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n, success and run of a domain's episodes."""
    n = np.tile(np.arange(float(TASKS)), RUNS)
    p = CURVE.value(np.array(DOMAINS[domain]), n)
    return n, np.random.default_rng(domain).random(n.size) < p, np.repeat(np.arange(RUNS), TASKS)


def loop(fit: Fit, counts: Counts, *, gradient: bool) -> np.ndarray:
    """The log-likelihood that L-BFGS-B reaches for each set of counts; as plain as a user would write it."""
    bounds = unbounded(CURVE, CURVE.bounds(counts.n_N).T).T
    start, n = unbounded(CURVE, fit.parameters_P), counts.n_N
    reached = []
    for trials, successes in zip(counts.trials, counts.successes, strict=True):

        def loss(theta: np.ndarray, k: np.ndarray = successes, m: np.ndarray = trials) -> Any:
            i, a = 1 / (1 + np.exp(-theta[:2]))
            rate = np.exp(theta[2])
            decay = np.exp(-rate * n)
            p = a - (a - i) * decay
            value = -float(k @ np.log(p) + (m - k) @ np.log(1 - p))
            if not gradient:
                return value
            columns = [decay * i * (1 - i), (1 - decay) * a * (1 - a), (a - i) * n * decay * rate]
            return value, -(k / p - (m - k) / (1 - p)) @ np.column_stack(columns)

        reached.append(-minimize(loss, start, jac=gradient, method="L-BFGS-B", bounds=bounds).fun)
    return np.array(reached)


def main() -> None:
    """Prints a table in Markdown."""
    fit_curve(*episodes(0), draws=10)  # imports
    started = time.process_time()
    fits = [fit_curve(*episodes(domain), draws=DRAWS) for domain in range(len(DOMAINS))]
    whole = time.process_time() - started

    refits, slow, gap = 0.0, {True: 0.0, False: 0.0}, 0.0
    for fit in fits:
        counts = fit.counts.weighted(cluster_weights(RUNS, DRAWS, 0))
        started = time.process_time()
        ours = maximize(CURVE, counts, fit.parameters_P[None], tolerance=1e-6).log_likelihood_B
        refits += time.process_time() - started
        some = counts.rows(slice(SAMPLE))
        for gradient in slow:
            started = time.process_time()
            theirs = loop(fit, some, gradient=gradient)
            slow[gradient] += (time.process_time() - started) * DRAWS / SAMPLE
            gap = max(gap, float((theirs - ours[:SAMPLE]).max()))
    print(f"| {len(DOMAINS)} domains x {RUNS} runs x {TASKS} tasks, {DRAWS:,} refits each | s CPU | times the refits |")
    print("|---|---|---|")
    print(f"| `fit_curve`, all of it | {whole:.2f} | |\n| its refits | {refits:.2f} | 1 |")
    print(f"| L-BFGS-B in a loop, as it comes | {slow[False]:.1f} | {slow[False] / refits:.0f} |")
    print(f"| L-BFGS-B in a loop, given the gradient | {slow[True]:.1f} | {slow[True] / refits:.0f} |")
    print(f"\nThe loops are extrapolated from {SAMPLE} of {DRAWS:,} refits a domain. No refit of theirs is more")
    print(f"than {max(gap, 0):.0e} likelier than ours.")


if __name__ == "__main__":
    main()
