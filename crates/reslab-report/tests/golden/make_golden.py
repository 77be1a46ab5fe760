"""Expected values of the report's statistics, by SciPy and numpy. Writes golden.json beside this file.

python make_golden.py      (SciPy 1.17, numpy 2.4)
"""

import json
from pathlib import Path

import numpy as np
from scipy import stats

rng = np.random.default_rng(20240229)


def interval(values):
    """Mean and 95 % t interval."""
    values = np.asarray(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
    return {"values": values.tolist(), "mean": values.mean(), "low": low, "high": high}


def paired(arm, baseline):
    """Mean difference and its 95 % interval by the paired t test."""
    result = stats.ttest_rel(arm, baseline)
    ci = result.confidence_interval(0.95)
    mean = float(np.mean(np.asarray(arm) - np.asarray(baseline)))
    return {"arm": arm, "baseline": baseline, "mean": mean, "low": ci.low, "high": ci.high}


def spike_share(values, window, threshold, two_sided):
    """Share of the values that leave the mean of the `window` before them by `threshold` sample sds."""
    before = np.lib.stride_tricks.sliding_window_view(values, window)[:-1]
    judged = values[window:]
    score = (judged - before.mean(axis=1)) / before.std(axis=1, ddof=1)
    return float(np.mean((np.abs(score) if two_sided else score) > threshold))


def spikes():
    values = rng.normal(2.0, 0.1, 700)
    values[[3, 200, 201, 350, 500, 699]] += [5.0, 1.0, 5.0, 2.0, 0.62, 3.0]
    values[420] -= 4.0
    settings = [(128, 6.0, False), (128, 6.0, True), (64, 3.0, False), (128, 7.0, False)]
    return {
        "values": values.tolist(),
        "shares": [
            {"window": w, "threshold": t, "two_sided": s, "share": spike_share(values, w, t, s)} for w, t, s in settings
        ],
    }


def chance(difference, n, sd, freedom, noise):
    """Two-sided p of the mean of n differences of two runs each, if their variance is 2 sd^2 + noise."""
    t = difference / np.sqrt((2 * sd**2 + noise) / n)
    p = 2 * (stats.norm.sf(abs(t)) if freedom is None else stats.t.sf(abs(t), freedom))
    return {"difference": difference, "n": n, "sd": sd, "freedom": freedom, "noise": noise, "p": p}


def main():
    golden = {
        "t_quantiles": [[df, stats.t.ppf(0.975, df)] for df in (1, 2, 3, 4, 5, 9, 29, 99, 1000)],
        "intervals": [
            interval([0.7134, 0.7098, 0.7160]),
            interval([0.5, 0.25, 0.75, 0.625, 0.125, 0.9]),
            interval(rng.normal(0.9, 0.001, 10).round(4)),
        ],
        "paired": [
            paired([0.71, 0.72, 0.74], [0.70, 0.72, 0.71]),
            paired(rng.normal(0.8, 0.02, 8).round(4).tolist(), rng.normal(0.78, 0.02, 8).round(4).tolist()),
        ],
        "spikes": spikes(),
        "chance": [
            chance(0.02, 1, 0.01, 5, 0.0),
            chance(-0.02, 1, 0.01, 5, 1e-3),
            chance(0.02, 3, 0.01, 2, 1e-5),
            chance(0.03, 1, 0.0, None, 2e-4),
        ],
        "paired_p": [
            [list(d), stats.ttest_1samp(d, 0).pvalue] for d in ((0.01, 0.02, 0.04), (-0.3, -0.31, -0.29, -0.33))
        ],
    }
    path = Path(__file__).with_name("golden.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
