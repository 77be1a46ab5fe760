//! The table for programs: one CSV row per arm, and JSON. Figures in the units of the records (accuracies from 0 to 1).

use serde_json::{Map, Value, json};

use crate::arm::ArmRow;
use crate::columns::{columns, json_comparisons, json_spikes};
use crate::metric::Metric;
use crate::stats::Summary;
use crate::table::Table;
use crate::view::json_published;

impl Table {
    /// One row per arm and point, numbers only behind the name; an empty field is a figure that is not defined.
    /// Without figures that depend on time.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for (index, row) in self.rows.iter().enumerate() {
            let fields = self.fields(index, row);
            if index == 0 {
                writer.write_record(fields.iter().map(|(name, _)| name)).expect("a vector can be written");
            }
            writer.write_record(fields.iter().map(|(_, value)| value)).expect("rows have equal lengths");
        }
        String::from_utf8(writer.into_inner().expect("a vector can be written")).expect("fields are text")
    }

    /// Everything, figures that depend on time included, as one JSON object.
    pub fn to_json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().enumerate().map(|(index, row)| self.json_row(index, row)).collect();
        let heading: Map<String, Value> =
            self.heading.lines.iter().map(|(word, what)| (word.to_lowercase(), json!(what))).collect();
        let selection = self.selection.as_ref().map(|selection| {
            let rows = selection.rows.iter().map(|choice| {
                json!({
                    "arm": choice.arm,
                    "chosen": choice.row.map(|row| &self.rows[row].arm),
                    "complete_points": choice.complete,
                    "points": choice.points,
                    "best": choice.best.iter().map(Metric::name).collect::<Vec<_>>(),
                    "difference": summary(choice.difference.as_ref()),
                })
            });
            let rows: Vec<Value> = rows.collect();
            json!({"keys": selection.keys, "metric": selection.metric.name(), "grid": selection.grid, "rows": rows})
        });
        let mut table = json!({
            "name": self.heading.name,
            "heading": heading,
            "metric": self.metric.name(),
            "baseline": self.baseline,
            "rows": rows,
            "selection": selection,
            "findings": self.findings,
            "notes": self.notes,
        });
        for (name, value) in json_comparisons(self) {
            table[name] = value;
        }
        serde_json::to_string_pretty(&table).expect("a table has only strings and finite numbers") + "\n"
    }

    fn fields(&self, index: usize, row: &ArmRow) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> = vec![("arm".to_owned(), row.arm.clone())];
        let mut put = |name: &str, value: String| fields.push((name.to_owned(), value));
        for (name, count) in counts(row) {
            put(name, count.to_string());
        }
        let chosen = self.selection.as_ref().map(|s| s.rows.iter().find(|choice| choice.row == Some(index)));
        let mut summaries: Vec<(String, Option<Summary>)> =
            row.metrics.iter().map(|(metric, summary)| (metric.name().to_owned(), *summary)).collect();
        summaries.push(("difference".to_owned(), row.difference));
        if let Some(chosen) = chosen {
            put("selected", u8::from(chosen.is_some()).to_string());
            summaries.push(("selected_difference".to_owned(), chosen.and_then(|choice| choice.difference)));
        }
        summaries.push(("final_loss".to_owned(), row.final_loss));
        for (name, summary) in summaries {
            put(&format!("{name}_mean"), number(summary.map(|s| s.mean)));
            put(&format!("{name}_low"), number(summary.and_then(|s| s.low)));
            put(&format!("{name}_high"), number(summary.and_then(|s| s.high)));
            put(&format!("{name}_n"), summary.map_or(0, |s| s.n).to_string());
        }
        for (name, figure) in figures(row) {
            put(name, number(figure));
        }
        put("parameters", row.parameters.to_string());
        if let Some(published) = &self.published {
            let own = published.rows[index].as_ref();
            put("paper", number(own.map(|own| own.value)));
            put("paper_source", own.map_or(String::new(), |own| own.source.clone()));
        }
        fields.extend(columns(self, index));
        fields
    }

    fn json_row(&self, index: usize, row: &ArmRow) -> Value {
        let mut object = Map::new();
        object.insert("arm".into(), json!(row.arm));
        object.insert("base".into(), json!(row.base));
        let axes: Map<String, Value> = row.point.iter().map(|axis| (axis.key.clone(), json!(axis.value))).collect();
        object.insert("point".into(), axes.into());
        object.insert("is_baseline".into(), json!(row.is_baseline));
        if let Some(selection) = &self.selection {
            object.insert("selected".into(), json!(selection.rows.iter().any(|choice| choice.row == Some(index))));
        }
        object.extend(counts(row).map(|(name, count)| (name.to_owned(), json!(count))));
        let metrics: Map<String, Value> =
            row.metrics.iter().map(|(metric, s)| (metric.name().to_owned(), summary(s.as_ref()))).collect();
        object.insert("metrics".into(), metrics.into());
        object.insert("best".into(), json!(row.best.iter().map(Metric::name).collect::<Vec<_>>()));
        object.insert("difference".into(), summary(row.difference.as_ref()));
        object.insert("final_loss".into(), summary(row.final_loss.as_ref()));
        object.extend(figures(row).map(|(name, figure)| (name.to_owned(), maybe_infinite(figure))));
        object.insert("spike_episodes".into(), json_spikes(&row.episodes));
        object.insert("grad_spike_episodes".into(), json_spikes(&row.grad_episodes));
        object.insert("parameters".into(), json!(row.parameters));
        if let Some(published) = &self.published {
            object.insert("paper".into(), json_published(published.rows[index].as_ref()));
        }
        let t = &row.timing;
        let timing = json!({
            "images_per_s": t.images_per_s,
            "peak_memory_bytes": t.peak_memory_bytes,
            "seconds": t.seconds,
            "devices": t.devices,
        });
        object.insert("timing".into(), timing);
        object.into()
    }
}

fn counts(row: &ArmRow) -> [(&'static str, usize); 6] {
    [
        ("planned", row.planned),
        ("done", row.done),
        ("failed", row.failed),
        ("non_finite", row.non_finite),
        ("diverged", row.diverged),
        ("not_trained", row.not_trained),
    ]
}

fn figures(row: &ArmRow) -> [(&'static str, Option<f64>); 4] {
    [
        ("largest_grad_norm", row.largest_grad_norm),
        ("spike_score", row.spike_score),
        ("grad_spike_score", row.grad_spike_score),
        ("update_ratio", row.update_ratio),
    ]
}

/// The shortest digits that give the same float64.
pub(crate) fn number(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| x.to_string())
}

pub(crate) fn summary(summary: Option<&Summary>) -> Value {
    summary.map_or(Value::Null, |s| {
        json!({
            "mean": maybe_infinite(Some(s.mean)),
            "low": s.low,
            "high": s.high,
            "interval": s.interval,
            "n": s.n,
            "diverged": s.diverged,
        })
    })
}

/// JSON has no infinity: a word instead.
pub(crate) fn maybe_infinite(x: Option<f64>) -> Value {
    match x {
        Some(x) if !x.is_finite() => json!(x.to_string()),
        x => json!(x),
    }
}
