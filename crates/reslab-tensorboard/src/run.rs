//! The event file of one run, from its records.

use reslab_record::{Done, EvalRow, Failed, LayerRow, Outcome, PlannedRun, RunDir, StepRow, Weights, read_rows};
use std::collections::BTreeMap;
use std::path::Path;

use crate::framing::append;
use crate::hparams::{self, FINAL};
use crate::proto::{Event, Figure, Histogram, Value};

/// The bytes of a run's event file; `None` where nothing of it is recorded yet.
///
/// Of a run that goes on, the last recorded step is left out: its rows may not all be there. So what is
/// written later begins with the same bytes, and a TensorBoard that watches the file sees it grow.
pub(crate) fn bytes(sweep: &Path, run: &PlannedRun) -> Option<Vec<u8>> {
    let dir = RunDir::open(&run.dir(sweep)).ok()?;
    let ended = Ended::read(&dir, run);
    let mut steps = Steps::read(dir.path(), ended.is_some());
    if steps.values.is_empty() {
        return None;
    }
    if let Some(ended) = &ended {
        steps.end(ended);
    }
    let mut file = Vec::new();
    append(&mut file, &Event::version());
    append(&mut file, &Event::new(0.0, 0, vec![hparams::start(run)]));
    let mut seconds = 0.0;
    for (step, values) in steps.values {
        seconds = steps.seconds.get(&step).copied().unwrap_or(seconds);
        append(&mut file, &Event::new(seconds, step, values));
    }
    Some(file)
}

/// The name of a run's folder.
pub(crate) fn name(run: &PlannedRun) -> &str {
    Path::new(&run.folder).file_name().and_then(|name| name.to_str()).unwrap_or(&run.id)
}

/// A run at its end.
enum Ended {
    Done(Done),
    Failed,
}

impl Ended {
    fn read(dir: &RunDir, run: &PlannedRun) -> Option<Self> {
        // What can't be read is named by the tables; here the run has not ended.
        let done: Option<Done> = dir.read_done().ok().flatten().filter(|done| done.id == run.id);
        let failed: Option<Failed> = dir.read_failed().ok().flatten();
        done.map(Self::Done).or(failed.map(|_| Self::Failed))
    }
}

/// All figures of a run by step.
struct Steps {
    values: BTreeMap<u64, Vec<Value>>,
    /// Of the run so far, by step.
    seconds: BTreeMap<u64, f64>,
}

impl Steps {
    fn read(dir: &Path, whole: bool) -> Self {
        let rows = read_rows::<StepRow>(dir).rows;
        let mut steps = Self { values: BTreeMap::new(), seconds: BTreeMap::new() };
        let last = rows.last().map_or(0, |row| row.step);
        let is_told = |step: u64| whole || step < last;
        for row in rows.iter().filter(|row| is_told(row.step)) {
            steps.seconds.insert(row.step, row.seconds);
            steps.put(row.step, step_values(row));
        }
        for row in read_rows::<EvalRow>(dir).rows.iter().filter(|row| is_told(row.step)) {
            steps.put(row.step, eval_values(row));
        }
        for row in read_rows::<LayerRow>(dir).rows.iter().filter(|row| is_told(row.step)) {
            steps.put(row.step, layer_values(row));
        }
        steps
    }

    fn put(&mut self, step: u64, values: Vec<Value>) {
        self.values.entry(step).or_default().extend(values);
    }

    /// The result, at the last step.
    fn end(&mut self, ended: &Ended) {
        let last = self.values.keys().next_back().copied().unwrap_or(0);
        let seconds = self.seconds.values().next_back().copied().unwrap_or(0.0);
        let (mut values, has_result) = match ended {
            Ended::Done(done) => (final_values(done), true),
            Ended::Failed => (Vec::new(), false),
        };
        values.push(hparams::end(has_result, seconds));
        self.put(last, values);
    }
}

fn step_values(row: &StepRow) -> Vec<Value> {
    let whole = [("train/loss", row.loss), ("train/lr", row.lr), ("train/grad_norm", row.grad_norm)];
    let parts = [
        ("attention", row.grad_norm_attention),
        ("mlp", row.grad_norm_mlp),
        ("gamma", row.grad_norm_gamma),
        ("embedding", row.grad_norm_embedding),
        ("head", row.grad_norm_head),
    ];
    let mut values: Vec<Value> = whole.into_iter().map(|(tag, x)| Value::scalar(tag, x)).collect();
    values.extend(parts.into_iter().filter_map(|(part, x)| Some(Value::scalar(format!("grad_norm/{part}"), x?))));
    values.extend(row.weight_update_norm.map(|x| Value::scalar("train/weight_update_norm", x)));
    values
}

/// Named as in `done.json`.
fn eval_values(row: &EvalRow) -> Vec<Value> {
    let suffix = if row.weights == Weights::Ema { "_ema" } else { "" };
    let scores = [("loss", row.loss), ("top1", row.top1), ("top5", row.top5)];
    scores.into_iter().map(|(name, x)| Value::scalar(format!("{}/{name}{suffix}", row.split), x)).collect()
}

fn layer_values(row: &LayerRow) -> Vec<Value> {
    let join = format!("block_{:02}_{}", row.block, row.branch);
    let scalars = [("update_ratio", row.ratio), ("gate_mean", row.gate_mean)];
    let mut values: Vec<Value> =
        scalars.into_iter().filter_map(|(name, x)| Some(Value::scalar(format!("{name}/{join}"), x?))).collect();
    values.extend(gamma(row).map(|histogram| Value::new(format!("gamma/{join}"), Figure::Histogram(histogram))));
    values
}

/// The gammas of one join, whose number is put as 1. Recorded are the ends, the mean and the root mean square; which gamma
/// is where between is not, so there are two even buckets, parted at the mean, and as much in each as gives that mean.
///
/// A gate's learned number is the end of its range, no gamma.
fn gamma(row: &LayerRow) -> Option<Histogram> {
    let figures = [row.gamma_min?, row.gamma_max?, row.gamma_mean?, row.gamma_rms?];
    let [min, max, mean, rms] = figures;
    if row.gate_mean.is_some() || figures.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let (bucket_limit, bucket) = if min < mean && mean < max {
        let below = (max - mean) / (max - min);
        (vec![mean, max], vec![below, 1.0 - below])
    } else {
        (vec![max], vec![1.0])
    };
    Some(Histogram { min, max, num: 1.0, sum: mean, sum_squares: rms * rms, bucket_limit, bucket })
}

fn final_values(done: &Done) -> Vec<Value> {
    let mut values: Vec<Value> =
        done.metrics.iter().map(|(name, x)| Value::scalar(format!("{FINAL}{name}"), *x)).collect();
    if let Outcome::NonFinite { step } = done.outcome {
        values.push(Value::scalar(format!("{FINAL}non_finite_step"), step as f64));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use reslab_record::Branch;

    fn row(gamma: [f64; 4]) -> LayerRow {
        let [min, max, mean, rms] = gamma.map(Some);
        LayerRow {
            step: 0,
            block: 7,
            branch: Branch::Mlp,
            residual_rms: None,
            branch_rms: None,
            update_rms: None,
            ratio: Some(0.5),
            ratio_p10: None,
            ratio_p90: None,
            cosine: None,
            gamma_mean: mean,
            gamma_rms: rms,
            gamma_abs: None,
            gamma_min: min,
            gamma_max: max,
            gamma_flipped: None,
            gate_mean: None,
            gate_std: None,
            gate_saturated: None,
        }
    }

    /// Even buckets have their mean in their middle: .75 x (-1 + 0)/2 + .25 x (0 + 3)/2 = 0, the recorded mean.
    #[test]
    fn a_histogram_has_the_recorded_ends_and_moments_and_its_buckets_the_mean() {
        let h = gamma(&row([-1.0, 3.0, 0.0, 2.0])).unwrap();
        assert_eq!((h.min, h.max, h.num, h.sum, h.sum_squares), (-1.0, 3.0, 1.0, 0.0, 4.0));
        assert_eq!((h.bucket_limit, h.bucket), (vec![0.0, 3.0], vec![0.75, 0.25]));
    }

    #[test]
    fn gammas_that_are_all_alike_have_one_bucket_and_what_is_no_gamma_has_none() {
        let h = gamma(&row([1e-5, 1e-5, 1e-5, 1e-5])).unwrap();
        assert_eq!((h.bucket_limit, h.bucket), (vec![1e-5], vec![1.0]));
        assert_eq!(gamma(&row([0.0, f64::NAN, 0.0, 0.0])), None);
        assert_eq!(gamma(&LayerRow { gate_mean: Some(0.5), ..row([0.0, 1.0, 0.5, 0.6]) }), None);
        let tags: Vec<String> = layer_values(&row([0.0, 1.0, 0.5, 0.6])).into_iter().map(|value| value.tag).collect();
        assert_eq!(tags, ["update_ratio/block_07_mlp", "gamma/block_07_mlp"]);
    }
}
