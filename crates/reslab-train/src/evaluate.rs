//! Evaluation of one split: mean loss and accuracies, with one copy to the host.

use reslab_data::{Augment, Split};
use reslab_model::Vit;
use reslab_residual::{Pass, Probe, ProbeFigures};
use reslab_torch::autocast_bf16;
use reslab_torch::tch::{Kind, Reduction, Tensor, no_grad_guard};

use crate::TrainError;
use crate::config::{Precision, TrainConfig};

/// What an evaluation found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Mean cross-entropy without label smoothing, nats.
    pub loss: f64,
    /// Share of right answers, 0 to 1.
    pub top1: f64,
    /// Share of images whose class is among the five likeliest, 0 to 1.
    pub top5: f64,
    /// Images evaluated.
    pub images: u64,
}

/// Evaluates `vit` as it stands, in eval mode: no drop path, no augmentation.
pub(crate) fn evaluate(vit: &Vit, split: &Split, augment: &Augment, train: &TrainConfig) -> Result<Scores, TrainError> {
    let _no_grad = no_grad_guard();
    let _precision = autocast_bf16(split.device(), train.precision == Precision::Bf16);
    let batch = (train.batch / train.accumulate) as usize;
    let mut sums: Option<Tensor> = None; // [3]: loss, top 1, top 5
    let mut seen = 0; // images that can't be read are not among them
    for batch in split.batches(batch) {
        let (images, labels) = batch?;
        seen += labels.size()[0] as u64;
        let images = augment.eval(&images)?; // [B, C, H, W]
        let found = counts(&vit.forward(&images, &mut Pass::eval()), &labels);
        sums = Some(sums.map_or(found.shallow_clone(), |sums| sums + found));
    }
    let Some(sums) = sums else { return Ok(Scores { loss: f64::NAN, top1: f64::NAN, top5: f64::NAN, images: 0 }) };
    let sums = Vec::<f64>::try_from(sums).expect("three sums");
    let mean = |sum: f64| sum / seen as f64;
    Ok(Scores { loss: mean(sums[0]), top1: mean(sums[1]), top5: mean(sums[2]), images: seen })
}

/// Looks into `vit` as it stands with the first batch of `split`, in eval mode, in micro-batches as in training.
pub(crate) fn probe(
    vit: &Vit,
    split: &Split,
    augment: &Augment,
    train: &TrainConfig,
) -> Result<ProbeFigures, TrainError> {
    let _no_grad = no_grad_guard();
    let _precision = autocast_bf16(split.device(), train.precision == Precision::Bf16);
    let batch = (train.batch / train.accumulate) as usize;
    let mut passes = Vec::new();
    for batch in split.batches(batch).take(train.accumulate as usize) {
        let (images, _) = batch?;
        let mut pass = Pass::eval().probing();
        let _logits = vit.forward(&augment.eval(&images)?, &mut pass);
        passes.push(pass.take_probe());
    }
    Ok(Probe::figures(&passes))
}

/// logits: [B, C], labels: [B] -> [3]: summed loss, right answers, answers among the first five; float64.
fn counts(logits: &Tensor, labels: &Tensor) -> Tensor {
    let logits = logits.to_kind(Kind::Float);
    let loss = logits.cross_entropy_loss::<Tensor>(labels, None, Reduction::Sum, -100, 0.0);
    let top = logits.size()[1].min(5);
    let (_, classes) = logits.topk(top, 1, true, true); // [B, 5]
    let hits = classes.eq_tensor(&labels.unsqueeze(1)).to_kind(Kind::Double); // [B, 5]
    Tensor::stack(&[loss.to_kind(Kind::Double), hits.narrow(1, 0, 1).sum(Kind::Double), hits.sum(Kind::Double)], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_first_and_the_first_five() {
        // Seven classes; the true class is 1st, 2nd and 7th likeliest.
        let logits = Tensor::from_slice2(&[
            [9f32, 6., 5., 4., 3., 2., 1.],
            [9., 6., 5., 4., 3., 2., 1.],
            [9., 6., 5., 4., 3., 2., 1.],
        ]);
        let labels = Tensor::from_slice(&[0i64, 1, 6]);
        let found = Vec::<f64>::try_from(counts(&logits, &labels)).unwrap();
        assert_eq!(found[1..], [1.0, 2.0]);
        let by_hand: f64 = {
            let z: f64 = [9f64, 6., 5., 4., 3., 2., 1.].iter().map(|v| v.exp()).sum();
            [9.0, 6.0, 1.0].iter().map(|v| z.ln() - v).sum()
        };
        assert!((found[0] - by_hand).abs() < 1e-5, "{} {by_hand}", found[0]);
    }
}
