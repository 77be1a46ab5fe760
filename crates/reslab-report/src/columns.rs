//! Comparisons, learning rates, points and spikes for programs: columns of the CSV file, and JSON.

use serde_json::{Value, json};

use crate::aggregate::Estimate;
use crate::arm::ArmRow;
use crate::contrast::{Closest, Contrast, Finding};
use crate::data::{maybe_infinite, number, summary};
use crate::episodes::EpisodeCount;
use crate::table::Table;

/// The columns of row `index`. Of the primary contrast, of learning rates and of several points there are columns only
/// where the table has them; an arm's figures over its rates or points stand in each of its rows.
pub(crate) fn columns(table: &Table, index: usize) -> Vec<(String, String)> {
    let row = &table.rows[index];
    let mut columns = spikes(row);
    let mut put = |name: &str, value: String| columns.push((name.to_owned(), value));
    let comparison = &table.comparison;
    let contrast = comparison.with_baseline.iter().find(|contrast| contrast.rows.contains(&index));
    put("sign_flip_p", number(contrast.and_then(|c| c.sign_flip).map(|test| test.p)));
    put("holm_p", number(contrast.and_then(|c| c.holm)));
    put("p_above_baseline", number(contrast.and_then(|c| c.probability)));
    put("fisher_p", number(contrast.and_then(|c| c.fisher)));
    put("finding", contrast.map_or(String::new(), |c| sign(c.finding).to_string()));
    if let Some(primary) = &comparison.primary {
        let own = Some(primary).filter(|contrast| contrast.rows.contains(&index));
        put("primary_difference_mean", number(own.and_then(|c| c.difference).map(|d| d.mean)));
        put("primary_difference_low", number(own.and_then(|c| c.difference).and_then(|d| d.low)));
        put("primary_difference_high", number(own.and_then(|c| c.difference).and_then(|d| d.high)));
        put("primary_difference_n", own.and_then(|c| c.difference).map_or(0, |d| d.n).to_string());
        put("primary_sign_flip_p", number(own.and_then(|c| c.sign_flip).map(|test| test.p)));
        put("primary_p_above", number(own.and_then(|c| c.probability)));
        put("primary_fisher_p", number(own.and_then(|c| c.fisher)));
        put("primary_finding", own.map_or(String::new(), |c| sign(c.finding).to_string()));
    }
    if !table.rates.is_empty() {
        let rates = table.rates.iter().find(|rates| rates.rows.contains(&index));
        put("largest_stable_lr", rates.and_then(|r| r.largest_stable.clone()).unwrap_or_default());
        put("lr_sensitivity_mean", number(rates.and_then(|r| r.sensitivity).map(|s| s.mean)));
        put("lr_sensitivity_low", number(rates.and_then(|r| r.sensitivity).and_then(|s| s.low)));
        put("lr_sensitivity_high", number(rates.and_then(|r| r.sensitivity).and_then(|s| s.high)));
    }
    if let Some(over) = &table.over_points {
        let own = over.rows.iter().find(|over| over.arm == row.base);
        let estimates =
            [("iqm", own.and_then(|o| o.interquartile_mean)), ("p_improvement", own.and_then(|o| o.improvement))];
        for (name, estimate) in estimates {
            put(name, number(estimate.map(|e| e.value)));
            put(&format!("{name}_low"), number(estimate.map(|e| e.low)));
            put(&format!("{name}_high"), number(estimate.map(|e| e.high)));
        }
    }
    columns
}

fn spikes(row: &ArmRow) -> Vec<(String, String)> {
    let of = |lead: &str, count: &EpisodeCount| {
        [
            (format!("{lead}spike_episodes"), count.episodes.to_string()),
            (format!("{lead}spike_largest"), number(count.largest)),
            (format!("{lead}spike_longest_recovery"), count.longest.map_or(String::new(), |steps| steps.to_string())),
            (format!("{lead}spike_never_recovered"), count.lasting.to_string()),
        ]
    };
    [of("", &row.episodes), of("grad_", &row.grad_episodes)].concat()
}

/// 1 better, -1 worse, 0 undecided, 2 differs where neither end is the better one.
fn sign(finding: Finding) -> i8 {
    match finding {
        Finding::Better => 1,
        Finding::Worse => -1,
        Finding::Differs => 2,
        Finding::Undecided => 0,
    }
}

pub(crate) fn json_spikes(count: &EpisodeCount) -> Value {
    json!({
        "episodes": count.episodes,
        "largest": maybe_infinite(count.largest),
        "longest_recovery": count.longest,
        "never_recovered": count.lasting,
    })
}

/// What stands beside the rows.
pub(crate) fn json_comparisons(table: &Table) -> [(&'static str, Value); 3] {
    let comparison = json!({
        "primary": table.comparison.primary.as_ref().map(|contrast| json_contrast(table, contrast)),
        "with_baseline":
            table.comparison.with_baseline.iter().map(|contrast| json_contrast(table, contrast)).collect::<Vec<_>>(),
        "closest": table.comparison.closest.as_ref().map(json_closest),
    });
    let rates = table.rates.iter().map(|row| {
        let sensitivity = summary(row.sensitivity.as_ref());
        json!({"arm": row.arm, "rates": row.rates, "largest_stable": row.largest_stable, "sensitivity": sensitivity})
    });
    let over = table.over_points.as_ref().map(|over| {
        let rows = over.rows.iter().map(|row| {
            json!({
                "arm": row.arm,
                "points": row.points,
                "interquartile_mean": json_estimate(row.interquartile_mean),
                "p_improvement": json_estimate(row.improvement),
            })
        });
        json!({"keys": over.keys, "rows": rows.collect::<Vec<_>>()})
    });
    [("comparison", comparison), ("learning_rates", rates.collect()), ("over_points", json!(over))]
}

fn json_contrast(table: &Table, contrast: &Contrast) -> Value {
    json!({
        "arm": contrast.arm,
        "baseline": contrast.baseline,
        "rows": contrast.rows.iter().map(|row| &table.rows[*row].arm).collect::<Vec<_>>(),
        "difference": summary(contrast.difference.as_ref()),
        "sign_flip_p": contrast.sign_flip.map(|test| test.p),
        "exact": contrast.sign_flip.map(|test| test.exact),
        "holm_p": contrast.holm,
        "p_above": contrast.probability,
        "fisher_p": contrast.fisher,
        "finding": contrast.finding.word(),
    })
}

fn json_closest(closest: &Closest) -> Value {
    let Closest { arms, n, mean, sd, seeds } = closest;
    json!({"arms": arms, "n": n, "mean": mean, "sd": sd, "seeds": seeds})
}

fn json_estimate(estimate: Option<Estimate>) -> Value {
    estimate.map_or(Value::Null, |e| json!({"value": e.value, "low": e.low, "high": e.high}))
}
