//! What of a run is saved in its checkpoint, and how it comes back.

use std::collections::BTreeMap;
use std::time::Instant;

use reslab_record::{Checkpoint, Dtype, NamedTensor, RunDir};
use reslab_torch::tch::{Kind, Tensor};

use crate::config::ReportWeights;
use crate::ema::{assign, copies};
use crate::evaluate::Scores;
use crate::learner::Learner;
use crate::records::Records;
use crate::{Job, TrainError};

const BEST: &str = "best";
const TRAIN_LOSS: &str = "train_loss";

/// The best validation so far; its weights only where the run reports those.
#[derive(Debug, Default)]
pub(crate) struct Best {
    found: Option<(u64, Scores)>,
    last: Option<Scores>,
    weights: Option<Vec<Tensor>>,
}

impl Best {
    /// Takes in an evaluation; ties go to the earlier one.
    pub(crate) fn offer(&mut self, step: u64, scores: Scores, learner: &Learner) {
        self.last = Some(scores);
        if self.found.is_some_and(|(_, best)| scores.top1 <= best.top1) {
            return;
        }
        self.found = Some((step, scores));
        if learner.config().train.report == ReportWeights::BestVal {
            self.weights = Some(copies(learner.weights()));
        }
    }

    pub(crate) fn weights(&self) -> Option<&[Tensor]> {
        self.weights.as_deref()
    }

    /// The validation scores of the weights that are reported, and the step that they are of where that was chosen.
    pub(crate) fn reported(&self, report: ReportWeights) -> Option<(Option<u64>, Scores)> {
        match report {
            ReportWeights::Last => self.last.map(|scores| (None, scores)),
            ReportWeights::BestVal => self.found.map(|(step, scores)| (Some(step), scores)),
        }
    }

    /// As one line of a checkpoint's metadata; floats as bits, since what comes back must be what went in.
    fn to_text(&self) -> String {
        let Some((step, s)) = self.found else { return String::new() };
        format!("{step} {} {} {} {}", s.loss.to_bits(), s.top1.to_bits(), s.top5.to_bits(), s.images)
    }

    fn from_text(text: &str, weights: Option<Vec<Tensor>>) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let numbers: Vec<u64> = text.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let [step, loss, top1, top5, images] = numbers[..] else { return None };
        let float = f64::from_bits;
        let scores = Scores { loss: float(loss), top1: float(top1), top5: float(top5), images };
        Some(Self { found: Some((step, scores)), last: None, weights })
    }
}

/// Writes a checkpoint from which the run goes on at `step`.
pub(crate) fn save(
    job: &Job,
    learner: &Learner,
    best: &Best,
    step: u64,
    records: &mut Records,
) -> Result<(), TrainError> {
    let began = Instant::now();
    records.sync()?;
    let mut tensors = Vec::new();
    let names = || learner.parameters.iter().map(|p| p.name.as_str());
    for (name, tensor) in names().zip(learner.weights()) {
        tensors.push(to_bytes(format!("model/{name}"), tensor)?);
    }
    for (name, tensor) in learner.optimizer.state() {
        tensors.push(to_bytes(format!("optim/{name}"), &tensor)?);
    }
    for (name, tensor) in names().zip(learner.ema.iter().flat_map(|ema| ema.weights())) {
        tensors.push(to_bytes(format!("ema/{name}"), tensor)?);
    }
    for (name, tensor) in names().zip(best.weights().into_iter().flatten()) {
        tensors.push(to_bytes(format!("best/{name}"), tensor)?);
    }
    let mut meta = BTreeMap::from([(BEST.to_owned(), best.to_text())]);
    meta.extend(records.train_loss().map(|loss| (TRAIN_LOSS.to_owned(), loss.to_bits().to_string())));
    let checkpoint = Checkpoint { step, config_hash: job.id.clone(), meta, tensors };
    RunDir::open(&job.dir)?.write_checkpoint(&checkpoint)?;
    records.saved(began.elapsed());
    Ok(())
}

/// Brings the run back to its newest intact checkpoint and cuts its records back to it; gives the step to go on with.
pub(crate) fn restore(
    job: &Job,
    learner: &mut Learner,
    best: &mut Best,
    records: &mut Records,
) -> Result<u64, TrainError> {
    let restored = RunDir::open(&job.dir)?.recover_checkpoint()?;
    for note in &restored.notes {
        records.log(note)?;
    }
    if let Some(checkpoint) = restored.checkpoint {
        if records.cut_back(checkpoint.step)? {
            let loss = checkpoint.meta.get(TRAIN_LOSS).and_then(|bits| bits.parse().ok()).map(f64::from_bits);
            loss.into_iter().for_each(|loss| records.set_train_loss(loss));
            return load(job, checkpoint, learner, best);
        }
        // What is lost of the records can only be had by computing it again.
        records.log("rows before the checkpoint's step are missing: the run starts anew")?;
    }
    records.cut_back(0)?;
    Ok(0)
}

fn load(job: &Job, checkpoint: Checkpoint, learner: &mut Learner, best: &mut Best) -> Result<u64, TrainError> {
    let wrong = |what: &str| TrainError::Checkpoint(what.to_owned());
    if checkpoint.config_hash != job.id {
        return Err(wrong(&format!("it is of run {}, this is {}", checkpoint.config_hash, job.id)));
    }
    let best_text = checkpoint.meta.get(BEST).ok_or_else(|| wrong("it lacks its best validation"))?;
    let mut saved: BTreeMap<String, Tensor> = BTreeMap::new();
    for tensor in &checkpoint.tensors {
        saved.insert(tensor.name.clone(), to_tensor(tensor)?);
    }
    let names: Vec<String> = learner.parameters.iter().map(|p| p.name.clone()).collect();
    let mut take = |kind: &str| -> Result<Vec<Tensor>, TrainError> {
        let one = |name: &String| {
            saved.remove(&format!("{kind}/{name}")).ok_or_else(|| wrong(&format!("it lacks `{kind}/{name}`")))
        };
        names.iter().map(one).collect()
    };
    let model = take("model")?;
    if let Some((name, _)) =
        names.iter().zip(learner.weights().iter().zip(&model)).find(|(_, (a, b))| a.size() != b.size())
    {
        return Err(wrong(&format!("`{name}` has another shape")));
    }
    learner.set_weights(&model);
    if learner.ema.is_some() {
        let average = take("ema")?;
        assign(learner.ema.as_ref().map_or(&[], |ema| ema.weights()), &average);
    }
    let keeps_best = learner.config().train.report == ReportWeights::BestVal && !best_text.is_empty();
    let weights = if keeps_best { Some(take("best")?) } else { None };
    *best = Best::from_text(best_text, weights).ok_or_else(|| wrong("its best validation can't be read"))?;
    let state = saved.into_iter().filter_map(|(name, tensor)| Some((name.strip_prefix("optim/")?.to_owned(), tensor)));
    learner.optimizer.load_state(&state.collect())?;
    Ok(checkpoint.step)
}

fn to_bytes(name: String, tensor: &Tensor) -> Result<NamedTensor, TrainError> {
    let tensor = tensor.detach().to_device(reslab_torch::tch::Device::Cpu).contiguous();
    let (dtype, size) = match tensor.kind() {
        Kind::Double => (Dtype::F64, 8),
        Kind::Int64 => (Dtype::I64, 8),
        Kind::Float => (Dtype::F32, 4),
        other => return Err(TrainError::Checkpoint(format!("`{name}` is of kind {other:?}, which is not saved"))),
    };
    let mut bytes = vec![0; tensor.numel() * size];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok(NamedTensor { name, dtype, shape: tensor.size().iter().map(|n| *n as usize).collect(), bytes })
}

fn to_tensor(saved: &NamedTensor) -> Result<Tensor, TrainError> {
    let kind = match saved.dtype {
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        Dtype::I64 => Kind::Int64,
        Dtype::U8 => Kind::Uint8,
    };
    let shape: Vec<i64> = saved.shape.iter().map(|n| *n as i64).collect();
    Ok(Tensor::f_from_data_size(&saved.bytes, &shape, kind)?)
}
