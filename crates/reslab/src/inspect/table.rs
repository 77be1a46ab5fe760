//! The figures of all joins as rows: for the terminal, as CSV, ranked.

use anyhow::Result;
use reslab_record::Branch;
use reslab_residual::SiteFigures;

use super::gamma::{GammaFigures, Place};
use crate::columns::columns;

/// One join.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub place: Place,
    pub gamma: Option<GammaFigures>,
    pub adds: Option<SiteFigures>,
    /// 1: the largest rms of gamma.
    pub gamma_rank: Option<usize>,
    /// 1: the largest ratio of update to residual.
    pub ratio_rank: Option<usize>,
}

impl Row {
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.adds.and_then(|adds| adds.ratio)
    }

    pub(crate) fn gamma_rms(&self) -> Option<f64> {
        self.gamma.map(|gamma| gamma.rms)
    }
}

/// Gammas, and what was seen at the sites of the blocks, joined and ranked.
pub(crate) fn rows(gammas: &[(Place, GammaFigures)], sites: &[SiteFigures]) -> Vec<Row> {
    let site = |index: usize| {
        let branch = if index.is_multiple_of(2) { Branch::Attention } else { Branch::Mlp };
        Place { in_class_stage: false, block: index as u64 / 2, branch }
    };
    let mut places: Vec<Place> = gammas.iter().map(|(place, _)| *place).collect();
    if places.is_empty() {
        places = (0..sites.len()).map(site).collect();
    }
    let mut rows: Vec<Row> = places
        .into_iter()
        .map(|place| Row {
            place,
            gamma: gammas.iter().find(|(of, _)| *of == place).map(|(_, figures)| *figures),
            adds: (0..sites.len()).find(|index| site(*index) == place).map(|index| sites[index]),
            gamma_rank: None,
            ratio_rank: None,
        })
        .collect();
    let (gamma, ratio) = (ranks(&rows, Row::gamma_rms), ranks(&rows, Row::ratio));
    for (row, (gamma, ratio)) in rows.iter_mut().zip(gamma.into_iter().zip(ratio)) {
        (row.gamma_rank, row.ratio_rank) = (gamma, ratio);
    }
    rows
}

/// The rank of each row, 1 the largest; none where the figure is not there or no number.
fn ranks(rows: &[Row], figure: fn(&Row) -> Option<f64>) -> Vec<Option<usize>> {
    let values: Vec<Option<f64>> = rows.iter().map(|row| figure(row).filter(|value| !value.is_nan())).collect();
    let above = |value: f64| values.iter().flatten().filter(|other| **other > value).count();
    values.iter().map(|value| value.map(|value| 1 + above(value))).collect()
}

/// Spearman's correlation of both ranks, over joins that have both; none below three.
fn agreement(rows: &[Row]) -> Option<f64> {
    let both: Vec<Row> = rows.iter().filter(|r| r.gamma_rank.is_some() && r.ratio_rank.is_some()).cloned().collect();
    let mean_rank = |figure: fn(&Row) -> Option<f64>| -> Vec<f64> {
        let values: Vec<f64> = both.iter().filter_map(figure).collect();
        let rank = |v: f64| {
            let (above, same) = values.iter().fold((0.0, 0.0), |(above, same), other| {
                (above + f64::from(u8::from(*other > v)), same + f64::from(u8::from(*other == v)))
            });
            above + (same + 1.0) / 2.0
        };
        values.iter().map(|v| rank(*v)).collect()
    };
    let (a, b) = (mean_rank(Row::gamma_rms), mean_rank(Row::ratio));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    (a.len() >= 3 && spread > 0.0).then(|| product(&a, &b) / spread)
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value == 0.0 || (1e-3..1e4).contains(&value.abs()) => format!("{value:.4}"),
        Some(value) => format!("{value:.2e}"),
    }
}

/// The table of the terminal; columns of which nothing is known are left out.
pub(crate) fn lines(rows: &[Row]) -> Vec<String> {
    let (has_gamma, has_look) = (rows.iter().any(|r| r.gamma.is_some()), rows.iter().any(|r| r.adds.is_some()));
    let mut heads = vec!["block", "branch"];
    if has_gamma {
        heads.extend([">gamma mean", ">rms", ">p10", ">median", ">p90", ">negative %", ">participation", ">rank"]);
    }
    if has_look {
        heads.extend([">ratio", ">p10", ">p90", ">cosine", ">branch rms", ">residual rms", ">rank"]);
    }
    let rank = |rank: Option<usize>| rank.map_or("-".to_owned(), |rank| rank.to_string());
    let cells = |row: &Row| {
        let mut cells = vec![row.place.block(), row.place.branch.to_string()];
        if has_gamma {
            let of = |figure: fn(&GammaFigures) -> f64| number(row.gamma.as_ref().map(figure));
            cells.extend([of(|g| g.mean), of(|g| g.rms), of(|g| g.quantiles[0]), of(|g| g.quantiles[1])]);
            cells.extend([of(|g| g.quantiles[2]), of(|g| 100.0 * g.flipped), of(|g| g.participation)]);
            cells.push(rank(row.gamma_rank));
        }
        if has_look {
            let of = |figure: fn(&SiteFigures) -> Option<f64>| number(row.adds.as_ref().and_then(figure));
            cells.extend([of(|s| s.ratio), of(|s| s.ratio_p10), of(|s| s.ratio_p90), of(|s| s.cosine)]);
            cells.extend([of(|s| s.branch_rms), of(|s| s.residual_rms), rank(row.ratio_rank)]);
        }
        cells
    };
    columns(&heads, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// What both ranks say of each other, in one line.
pub(crate) fn summary(rows: &[Row]) -> Option<String> {
    let agreement = agreement(rows)?;
    let first = |rank: fn(&Row) -> Option<usize>| rows.iter().find(|row| rank(row) == Some(1)).map(name);
    Some(format!(
        "largest gamma: {}; adds most: {}; Spearman's correlation of both ranks {agreement:.2}: the size of gamma says {} of what a branch adds",
        first(|row| row.gamma_rank)?,
        first(|row| row.ratio_rank)?,
        match agreement.abs() {
            a if a >= 0.9 => "most",
            a if a >= 0.5 => "something",
            _ => "little",
        }
    ))
}

fn name(row: &Row) -> String {
    format!("block {} {}", row.place.block(), row.place.branch)
}

/// All figures as CSV, in full.
///
/// # Errors
/// Never for want of a disk: it is written into memory.
pub(crate) fn csv(rows: &[Row]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "stage",
        "block",
        "branch",
        "channels",
        "gamma_mean",
        "gamma_rms",
        "gamma_p10",
        "gamma_p50",
        "gamma_p90",
        "gamma_negative",
        "gamma_participation",
        "gamma_rank",
        "ratio",
        "ratio_p10",
        "ratio_p90",
        "cosine",
        "branch_rms",
        "update_rms",
        "residual_rms",
        "ratio_rank",
    ])?;
    let text = |value: Option<f64>| {
        value.map_or(String::new(), |value| if value.is_nan() { "NaN".to_owned() } else { value.to_string() })
    };
    let whole = |value: Option<usize>| value.map_or(String::new(), |value| value.to_string());
    for row in rows {
        let gamma = |figure: fn(&GammaFigures) -> f64| text(row.gamma.as_ref().map(figure));
        let adds = |figure: fn(&SiteFigures) -> Option<f64>| text(row.adds.as_ref().and_then(figure));
        writer.write_record([
            if row.place.in_class_stage { "class" } else { "blocks" }.to_owned(),
            row.place.block.to_string(),
            row.place.branch.to_string(),
            whole(row.gamma.map(|g| g.channels)),
            gamma(|g| g.mean),
            gamma(|g| g.rms),
            gamma(|g| g.quantiles[0]),
            gamma(|g| g.quantiles[1]),
            gamma(|g| g.quantiles[2]),
            gamma(|g| g.flipped),
            gamma(|g| g.participation),
            whole(row.gamma_rank),
            adds(|s| s.ratio),
            adds(|s| s.ratio_p10),
            adds(|s| s.ratio_p90),
            adds(|s| s.cosine),
            adds(|s| s.branch_rms),
            adds(|s| s.update_rms),
            adds(|s| s.residual_rms),
            whole(row.ratio_rank),
        ])?;
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(block: u64, branch: Branch) -> Place {
        Place { in_class_stage: false, block, branch }
    }

    fn site(ratio: f64) -> SiteFigures {
        SiteFigures { ratio: Some(ratio), ..SiteFigures::default() }
    }

    #[test]
    fn ranks_by_gamma_and_by_what_is_added_stand_side_by_side() {
        let gammas: Vec<(Place, GammaFigures)> =
            [(0, Branch::Attention, 0.3), (0, Branch::Mlp, 0.2), (1, Branch::Attention, 0.1)]
                .map(|(block, branch, value)| (place(block, branch), GammaFigures::of(&[value; 4])))
                .to_vec();
        let rows = rows(&gammas, &[site(0.01), site(0.02), site(0.03)]);
        let ranks: Vec<_> = rows.iter().map(|row| (row.gamma_rank, row.ratio_rank)).collect();
        assert_eq!(ranks, [(Some(1), Some(3)), (Some(2), Some(2)), (Some(3), Some(1))]);
        assert_eq!(agreement(&rows), Some(-1.0));
        let line = summary(&rows).expect("three joins");
        assert!(line.contains("largest gamma: block 0 attention; adds most: block 1 attention"), "{line}");
    }

    #[test]
    fn what_is_not_known_has_no_rank_and_no_column() {
        let rows = rows(&[], &[site(0.5), SiteFigures::default(), site(f64::NAN)]);
        assert_eq!(rows.iter().map(|row| row.ratio_rank).collect::<Vec<_>>(), [Some(1), None, None]);
        assert_eq!(summary(&rows), None);
        assert!(!lines(&rows)[0].contains("gamma"), "{}", lines(&rows)[0]);
        let text = String::from_utf8(csv(&rows).expect("written")).expect("UTF-8");
        assert!(text.lines().nth(3).is_some_and(|line| line.contains("NaN")), "{text}");
    }
}
