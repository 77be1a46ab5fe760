"""Expected values of the comparisons' statistics, by SciPy and numpy. Writes comparisons.json beside this file.

python make_comparisons.py      (SciPy 1.17, numpy 2.4)
"""

import itertools
import json
from pathlib import Path

import numpy as np
from scipy import stats

rng = np.random.default_rng(20240301)


def sign_flip(differences):
    """All sign patterns; SciPy's two-sided p of one sample is twice the smaller tail, which is the same here."""
    differences = np.asarray(differences)
    result = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    return {"differences": differences.tolist(), "p": float(result.pvalue)}


def wilcoxon(n):
    """Ranks with random signs: their sum is Wilcoxon's statistic."""
    ranks = np.arange(1, n + 1) * np.where(rng.random(n) < 0.7, 1, -1)
    return {"ranks": ranks.tolist(), "p": float(stats.wilcoxon(ranks, method="exact").pvalue)}


def fisher(a, of_a, b, of_b):
    return [a, of_a, b, of_b, float(stats.fisher_exact([[a, of_a - a], [b, of_b - b]]).pvalue)]


def power(effect, n):
    """Of a two-sided paired t test at .05."""
    limit = stats.t.ppf(0.975, n - 1)
    shift = effect * np.sqrt(n)
    return float(stats.nct.sf(limit, n - 1, shift) + stats.nct.cdf(-limit, n - 1, shift))


def seeds(effect):
    """The fewest pairs with a power of .8."""
    n = 2
    while power(effect, n) < 0.8:
        n += 1
    return [effect, n]


def interquartile_mean(values):
    return {"values": list(map(float, values)), "iqm": float(stats.trim_mean(values, 0.25))}


def strata(rows):
    """The exact bootstrap distribution of the interquartile mean: every resample of every stratum, all as likely."""
    resamples = [list(itertools.product(row, repeat=len(row))) for row in rows]
    iqms = [stats.trim_mean(np.concatenate(choice), 0.25) for choice in itertools.product(*resamples)]
    low, high = np.percentile(iqms, [2.5, 97.5])
    return {"strata": rows, "iqm": float(stats.trim_mean(np.concatenate(rows), 0.25)), "low": low, "high": high}


def improvement(arm, baseline):
    """rliable's: the mean over tasks of Mann-Whitney's U / (n m); its exact bootstrap distribution as above."""

    def above(x, y):
        return float(stats.mannwhitneyu(x, y, alternative="greater").statistic) / (len(x) * len(y))

    def resampled(x, y):
        return [
            above(a, b) for a in itertools.product(x, repeat=len(x)) for b in itertools.product(y, repeat=len(y))
        ]

    tasks = [resampled(x, y) for x, y in zip(arm, baseline)]
    # Two tasks: the mean of every pair of resamples.
    means = (np.array(tasks[0])[:, None] + np.array(tasks[1])[None, :]).ravel() / 2
    low, high = np.percentile(means, [2.5, 97.5])
    probability = float(np.mean([above(x, y) for x, y in zip(arm, baseline)]))
    return {"arm": arm, "baseline": baseline, "probability": probability, "low": low, "high": high}


def welch(b, a):
    """b - a: p and the 95 % interval of Welch's t test."""
    result = stats.ttest_ind(b, a, equal_var=False)
    low, high = result.confidence_interval(0.95)
    return {"b": b, "a": a, "p": float(result.pvalue), "low": float(low), "high": float(high)}


def main():
    golden = {
        "sign_flip": [
            sign_flip([0.0204, 0.0121, 0.0279]),
            sign_flip([1.0, 2.0, -3.0, 4.0, 0.5]),
            sign_flip([0.5, 0.25, -0.25, 0.5, 0.25, 0.0, -0.5]),
            sign_flip(rng.normal(0.5, 1.0, 9).round(3)),
            sign_flip(rng.normal(0.3, 1.0, 14)),
            sign_flip(rng.integers(-3, 6, 12) / 4),
        ],
        "wilcoxon": [wilcoxon(n) for n in (20, 33, 40)],
        "binomial_39_of_60": float(stats.binomtest(39, 60).pvalue),
        "fisher": [
            fisher(*case)
            for case in [(3, 3, 0, 3), (2, 3, 1, 3), (5, 6, 1, 6), (8, 10, 3, 12), (0, 5, 3, 4), (7, 200, 30, 190)]
        ],
        "power": [[e, n, power(e, n)] for e, n in [(0.5, 34), (1.0, 10), (2.0, 4), (3.0, 3), (5.0, 2), (0.05, 900)]],
        "seeds": [seeds(effect) for effect in (4.0, 2.0, 1.0, 0.5, 0.2, 0.1)],
        "interquartile_means": [
            interquartile_mean(rng.normal(0.7, 0.1, n).round(4)) for n in (1, 2, 3, 4, 6, 9, 13, 40)
        ],
        "strata": strata([[0.71, 0.74, 0.72], [0.55, 0.61, 0.49], [0.90, 0.91, 0.95]]),
        "improvement": improvement([[0.71, 0.74, 0.70], [0.55, 0.61, 0.5]], [[0.70, 0.71, 0.69], [0.55, 0.58, 0.6]]),
        "welch": [
            welch([0.71, 0.74, 0.72], [0.55, 0.61, 0.49, 0.58]),
            welch([0.71, 0.74], [0.73, 0.70, 0.69]),
            welch([0.5, 0.5, 0.5], [0.4, 0.6, 0.45]),
            welch([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 2.1]),
        ],
    }
    path = Path(__file__).with_name("comparisons.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
