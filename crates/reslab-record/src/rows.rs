//! The rows of a run's CSV files. Field order is column order; an empty field is a figure that is not defined.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A row of one of the CSV files.
pub trait Row: Serialize + for<'de> Deserialize<'de> {
    /// The file's name in the run's folder.
    const FILE: &'static str;
    /// The header, in the order of the fields.
    const HEADER: &'static [&'static str];
    /// The step that the row belongs to; a checkpoint of step `k` covers the rows with a smaller one.
    fn step(&self) -> u64;
    /// The block that the row is about, where it is about one.
    fn block(&self) -> Option<u64> {
        None
    }
}

/// The part of the data that a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Cut from the training images; what choices are made on.
    Val,
    /// Looked at once, at the end.
    Test,
}

/// Which weights were evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// Those that are trained.
    Raw,
    /// Their exponential moving average.
    Ema,
}

/// Which branch of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Branch {
    /// The attention branch, first in its block.
    Attention,
    /// The MLP branch.
    Mlp,
}

macro_rules! words {
    ($($kind:ident: $($variant:ident = $word:literal),*;)*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),* })
            }
        }
    )*};
}
words! {
    Split: Val = "val", Test = "test";
    Weights: Raw = "raw", Ema = "ema";
    Branch: Attention = "attention", Mlp = "mlp";
}

macro_rules! rows {
    ($(
        $(#[$doc:meta])* $name:ident in $file:literal $(of $block:ident)? {
            $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }

        impl Row for $name {
            const FILE: &'static str = $file;
            const HEADER: &'static [&'static str] = &[$(stringify!($field)),*];
            fn step(&self) -> u64 { self.step }
            $(fn block(&self) -> Option<u64> { Some(self.$block) })?
        }
    )*};
}

rows! {
    /// One logged training step. Times come last, so that the columns before them can be compared between runs.
    StepRow in "steps.csv" {
        /// Optimizer step, from 0.
        step: u64,
        /// Passes over the training images when the step is done.
        epoch: f64,
        /// Training loss of the step's batch.
        loss: f64,
        /// Learning rate.
        lr: f64,
        /// Global 2-norm of the gradients before clipping.
        grad_norm: f64,
        /// The same over the weights of attention.
        grad_norm_attention: Option<f64>,
        /// The same over the weights of the MLPs.
        grad_norm_mlp: Option<f64>,
        /// The same over learned scales of branches.
        grad_norm_gamma: Option<f64>,
        /// The same over patch embedding, positions and tokens.
        grad_norm_embedding: Option<f64>,
        /// The same over the final norm and the head.
        grad_norm_head: Option<f64>,
        /// Norm of the update of the weights / norm of the weights.
        weight_update_norm: Option<f64>,
        /// Training images per second since the last row.
        images_per_s: f64,
        /// Seconds of this process since its first step.
        seconds: f64,
    }

    /// One evaluation.
    EvalRow in "evals.csv" {
        /// The last optimizer step before it, from 0.
        step: u64,
        /// What it was evaluated on.
        split: Split,
        /// Which weights.
        weights: Weights,
        /// Mean cross-entropy, nats.
        loss: f64,
        /// Share of right answers, 0 to 1.
        top1: f64,
        /// Share of answers among the five likeliest, 0 to 1.
        top5: f64,
        /// Images evaluated.
        images: u64,
    }

    /// The figures of one block on the probe batch, at an evaluation of the trained weights; definitions in docs/records.md.
    ProbeRow in "probes.csv" of block {
        /// The last optimizer step before it, from 0.
        step: u64,
        /// Block, from 0.
        block: u64,
        /// Largest attention logit.
        attention_logit_max: Option<f64>,
        /// Mean entropy of attention / ln N.
        attention_entropy: Option<f64>,
        /// Mean cosine between different tokens of an image, behind the block.
        token_similarity: Option<f64>,
        /// Root mean square of the residual that enters the attention join.
        residual_rms_attention: Option<f64>,
        /// The same for the MLP join.
        residual_rms_mlp: Option<f64>,
    }

    /// The figures of one join at one step; definitions in docs/records.md.
    LayerRow in "layers.csv" of block {
        /// Optimizer step, from 0.
        step: u64,
        /// Block, from 0.
        block: u64,
        /// Which branch of the block.
        branch: Branch,
        /// Root mean square of the residual that enters the join.
        residual_rms: Option<f64>,
        /// Root mean square of the branch's output, before gamma or gate.
        branch_rms: Option<f64>,
        /// Root mean square of what is added.
        update_rms: Option<f64>,
        /// Mean over tokens of norm(update) / norm(residual).
        ratio: Option<f64>,
        /// Its 10th percentile over tokens.
        ratio_p10: Option<f64>,
        /// Its 90th percentile over tokens.
        ratio_p90: Option<f64>,
        /// Mean over tokens of cos(update, residual).
        cosine: Option<f64>,
        /// Mean of gamma.
        gamma_mean: Option<f64>,
        /// Root mean square of gamma.
        gamma_rms: Option<f64>,
        /// Mean absolute gamma.
        gamma_abs: Option<f64>,
        /// Smallest gamma.
        gamma_min: Option<f64>,
        /// Largest gamma.
        gamma_max: Option<f64>,
        /// Share of gammas whose sign is not that of their init.
        gamma_flipped: Option<f64>,
        /// Mean gate.
        gate_mean: Option<f64>,
        /// Standard deviation of the gate over tokens.
        gate_std: Option<f64>,
        /// Share of gates in the outer 5 % of their range.
        gate_saturated: Option<f64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_defined_in_the_page_of_records() {
        let page = include_str!("../../../docs/records.md");
        for column in [StepRow::HEADER, EvalRow::HEADER, ProbeRow::HEADER, LayerRow::HEADER].concat() {
            assert!(page.contains(&format!("`{column}`")), "docs/records.md lacks {column}");
        }
    }
}
