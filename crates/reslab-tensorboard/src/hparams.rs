//! What the plugin of hyper-parameters shows: a row per run with its arm, seed and axes, and its final metrics.

use prost::Message;
use reslab_record::{Plan, PlannedRun};
use std::collections::BTreeMap;

use crate::proto::{
    AnyValue, Dim, Experiment, Figure, HParamInfo, HParams, HParamsData, Kind, ListValue, Metadata, MetricInfo,
    MetricName, PluginData, SessionEnd, SessionStart, Shape, Tensor, Value,
};
use crate::run::name;

/// The group of final metrics, as `done.json` has them: `final/test/top1`. The last point of `test/top1` need not be
/// what a run reports (`train.report = "best_val"`).
pub(crate) const FINAL: &str = "final/";
/// Metrics with a column of their own, behind the plan's.
const METRICS: [&str; 5] = ["test/top1", "val/top1", "test/loss", "val/loss", "train/loss"];
const TEXT: i32 = 1;
const NUMBER: i32 = 3;
const SUCCESS: i32 = 1;
const FAILURE: i32 = 2;
const DT_FLOAT: i32 = 1;

/// Which hyper-parameters and metrics the runs of a plan have.
pub(crate) fn experiment(plan: &Plan) -> Value {
    let rows: Vec<BTreeMap<String, AnyValue>> = plan.runs.iter().map(hparams).collect();
    let mut names = vec!["arm", "seed"];
    for key in plan.runs.iter().flat_map(|run| &run.axes).map(|axis| axis.key.as_str()) {
        if !names.contains(&key) {
            names.push(key);
        }
    }
    let mut metrics = vec![plan.metric.as_str()];
    metrics.extend(METRICS.iter().filter(|metric| **metric != plan.metric));
    let data = Experiment {
        name: plan.name.clone(),
        description: plan.question.clone(),
        hparam_infos: names.into_iter().map(|name| info(name, &rows)).collect(),
        metric_infos: metrics.into_iter().map(metric).collect(),
    };
    plugin_value("_hparams_/experiment", HParamsData::Experiment(data))
}

/// The values of one run. A run is a group of its own, by the name of its folder: so TensorBoard takes no mean that is not the
/// table's, and puts no runs of several sweeps together.
pub(crate) fn start(run: &PlannedRun) -> Value {
    let data = SessionStart { hparams: hparams(run), group_name: name(run).to_owned() };
    plugin_value("_hparams_/session_start_info", HParamsData::Start(data))
}

/// How a run ended, at so many seconds. A diverged run is a result, no failure.
pub(crate) fn end(has_result: bool, seconds: f64) -> Value {
    let status = if has_result { SUCCESS } else { FAILURE };
    plugin_value("_hparams_/session_end_info", HParamsData::End(SessionEnd { status, end_time_secs: seconds }))
}

fn hparams(run: &PlannedRun) -> BTreeMap<String, AnyValue> {
    let own = [("arm", text(&run.name_without(|axis| axis.grid))), ("seed", number(run.seed as f64))];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let axes = run.axes.iter().map(|axis| (axis.key.clone(), value(&axis.value)));
    own.into_iter().chain(axes).collect()
}

fn info(name: &str, rows: &[BTreeMap<String, AnyValue>]) -> HParamInfo {
    let mut values: Vec<AnyValue> = Vec::new();
    for value in rows.iter().filter_map(|row| row.get(name)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let is_number = values.iter().all(|value| matches!(value.kind, Some(Kind::Number(_))));
    let kind = if is_number { NUMBER } else { TEXT };
    HParamInfo { name: name.to_owned(), kind, domain_discrete: Some(ListValue { values }) }
}

fn metric(name: &str) -> MetricInfo {
    MetricInfo { name: Some(MetricName { tag: format!("{FINAL}{name}") }), display_name: name.to_owned() }
}

/// An axis' value as it stands in the sweep file.
fn value(word: &str) -> AnyValue {
    match word.replace('_', "").parse::<f64>() {
        Ok(x) if x.is_finite() => number(x),
        _ => text(word),
    }
}

fn number(x: f64) -> AnyValue {
    AnyValue { kind: Some(Kind::Number(x)) }
}

fn text(word: &str) -> AnyValue {
    AnyValue { kind: Some(Kind::Text(word.to_owned())) }
}

/// A value that is all metadata: TensorBoard finds it by an empty tensor.
fn plugin_value(tag: &str, data: HParamsData) -> Value {
    let content = HParams { version: 0, data: Some(data) }.encode_to_vec();
    let metadata = Metadata { plugin_data: Some(PluginData { plugin_name: "hparams".to_owned(), content }) };
    let tensor = Tensor { dtype: DT_FLOAT, shape: Some(Shape { dim: vec![Dim { size: 0 }] }) };
    Value { metadata: Some(metadata), ..Value::new(tag, Figure::Tensor(tensor)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_a_number_where_its_word_is_one() {
        assert_eq!([value("3e-4"), value("1_000"), value("24")], [number(3e-4), number(1000.0), number(24.0)]);
        for word in ["subset", "true", "[0.9, 0.99]", "inf", "nan", ""] {
            assert_eq!(value(word), text(word), "{word}");
        }
    }
}
