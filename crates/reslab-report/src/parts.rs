//! The parts of the table that compare: tests, learning rates, several depths or data sets, spikes.

use crate::aggregate::Estimate;
use crate::cell::{self, Style};
use crate::contrast::Contrast;
use crate::episodes::EpisodeCount;
use crate::over_points::OverPoints;
use crate::section::Section;
use crate::table::Table;

/// The primary contrast, and all others with the baseline.
pub(crate) fn comparisons(table: &Table) -> Vec<Section> {
    let comparison = &table.comparison;
    let mut sections = Vec::new();
    if let Some(primary) = &comparison.primary {
        let title = format!("Primary contrast: {} against {}", primary.arm, primary.baseline);
        sections.push(section(title, &primary.baseline, std::slice::from_ref(primary), table));
    }
    if !comparison.with_baseline.is_empty() {
        let exploratory = if comparison.primary.is_some() { " (exploratory)" } else { "" };
        let title = format!("Comparison with {}{exploratory}", table.baseline);
        sections.push(section(title, &table.baseline, &comparison.with_baseline, table));
    }
    sections
}

fn section(title: String, baseline: &str, contrasts: &[Contrast], table: &Table) -> Section {
    let has_holm = contrasts.iter().any(|contrast| contrast.holm.is_some());
    let has_fisher = contrasts.iter().any(|contrast| contrast.fisher.is_some());
    let pick = |cells: [(bool, String); 7]| -> Vec<String> {
        cells.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, cell)| cell).collect()
    };
    let header = pick([
        (true, "arm".to_owned()),
        (true, format!("vs {baseline}")),
        (true, "sign-flip p".to_owned()),
        (has_holm, "Holm p".to_owned()),
        (true, format!("P(arm > {baseline})")),
        (has_fisher, "Fisher p".to_owned()),
        (true, "finding".to_owned()),
    ]);
    let style = Style::of(&table.metric).signed();
    let row = |contrast: &Contrast| {
        pick([
            (true, contrast.arm.clone()),
            (true, cell::difference(contrast.difference.as_ref(), style)),
            (true, cell::p_value(contrast.sign_flip.map(|test| test.p))),
            (has_holm, cell::p_value(contrast.holm)),
            (true, cell::share(contrast.probability)),
            (has_fisher, cell::p_value(contrast.fisher)),
            (true, contrast.finding.word().to_owned()),
        ])
    };
    Section { title, header, rows: contrasts.iter().map(row).collect(), ..Section::default() }
}

/// Every arm over its learning rates, where it has several.
pub(crate) fn rates(table: &Table) -> Option<Section> {
    let header = ["arm", "rates", "largest stable", "sensitivity"].map(str::to_owned);
    let row = |row: &crate::RateRow| {
        vec![
            row.arm.clone(),
            row.rates.join(" "),
            row.largest_stable.clone().unwrap_or(cell::NONE.to_owned()),
            cell::short(row.sensitivity.as_ref(), Style::FINAL_LOSS),
        ]
    };
    let rows: Vec<Vec<String>> = table.rates.iter().map(row).collect();
    (!rows.is_empty()).then(|| Section {
        title: "Learning rate".to_owned(),
        header: header.into(),
        rows,
        ..Section::default()
    })
}

/// Every arm over the points of the grid, where those are depths or data sets.
pub(crate) fn over_points(table: &Table) -> Option<Section> {
    let OverPoints { keys, rows } = table.over_points.as_ref()?;
    let style = Style::of(&table.metric);
    let header = ["arm", "points", "IQM", &format!("P(arm > {})", table.baseline)].map(str::to_owned);
    let interval = |estimate: Option<Estimate>, style: Style| {
        estimate.map_or(cell::NONE.to_owned(), |e| {
            format!("{} [{}, {}]", style.show(e.value), style.show(e.low), style.show(e.high))
        })
    };
    let rows = rows.iter().map(|row| {
        let improvement = if row.is_baseline { "baseline".to_owned() } else { interval(row.improvement, Style::SHARE) };
        vec![row.arm.clone(), row.points.to_string(), interval(row.interquartile_mean, style), improvement]
    });
    let title = format!("Over all points: {}", keys.join(", "));
    Some(Section { title, header: header.into(), rows: rows.collect(), ..Section::default() })
}

/// Spike episodes of the arms that have any.
pub(crate) fn spikes(table: &Table) -> Option<Section> {
    let header = [
        "arm",
        "loss episodes",
        "loss size",
        "loss recovery",
        "gradient episodes",
        "gradient size",
        "gradient recovery",
    ];
    let recovery = |count: &EpisodeCount| {
        let longest = count.longest.map_or(cell::NONE.to_owned(), |steps| steps.to_string());
        if count.lasting == 0 { longest } else { format!("{longest} ({} never)", count.lasting) }
    };
    let cells = |count: &EpisodeCount| [count.episodes.to_string(), cell::three_digits(count.largest), recovery(count)];
    let spiking = table.rows.iter().filter(|row| row.episodes.episodes + row.grad_episodes.episodes > 0);
    let row = |row: &crate::ArmRow| {
        [vec![row.arm.clone()], cells(&row.episodes).into(), cells(&row.grad_episodes).into()].concat()
    };
    let rows: Vec<Vec<String>> = spiking.map(row).collect();
    let title = "Spikes (arms without any are left out)".to_owned();
    (!rows.is_empty()).then(|| Section { title, header: header.map(str::to_owned).into(), rows, ..Section::default() })
}
