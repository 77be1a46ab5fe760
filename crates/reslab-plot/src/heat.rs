//! What each heat map is about.

use reslab_record::Branch;

use crate::study::{self, Probe, Records};

/// Where the figure of a heat map stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// In layers.csv: attention and MLP side by side.
    Joins(study::Figure),
    /// In probes.csv.
    Blocks(Probe),
}

impl Source {
    /// Names of the maps that stand side by side in a panel.
    pub fn strips(self) -> &'static [&'static str] {
        match self {
            Self::Joins(_) => &["attention", "MLP"],
            Self::Blocks(_) => &[""],
        }
    }

    /// Map, step, block and figure of each row of a run.
    pub fn cells(self, records: &Records) -> Box<dyn Iterator<Item = (usize, u64, u64, f64)> + '_> {
        match self {
            Self::Joins(figure) => {
                Box::new(records.joins.iter().map(move |join| {
                    (usize::from(join.branch == Branch::Mlp), join.step, join.block, join.get(figure))
                }))
            }
            Self::Blocks(figure) => {
                Box::new(records.blocks.iter().map(move |block| (0, block.step, block.block, block.get(figure))))
            }
        }
    }

    /// What was not recorded where there are none.
    pub fn lack(self) -> &'static str {
        match self {
            Self::Joins(_) => "telemetry",
            Self::Blocks(_) => "probes",
        }
    }
}

/// What a heat map shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heat {
    pub source: Source,
    pub title: &'static str,
    /// What the figure is, with its unit.
    pub bar: &'static str,
    pub log: bool,
    /// What an arm without it lacks, where not every arm has it: such an arm gets no panel.
    pub only_with: Option<&'static str>,
}

/// CaiT's diagnostic.
pub(crate) const RATIO: Heat = Heat {
    source: Source::Joins(study::Figure::Ratio),
    title: "Update ratio per layer over training",
    bar: "norm(update) / norm(residual), mean over tokens (no unit, log)",
    log: true,
    only_with: None,
};
/// The size of learned scales.
pub(crate) const GAMMA: Heat = Heat {
    source: Source::Joins(study::Figure::Gamma),
    title: "Size of gamma per layer over training",
    bar: "mean absolute gamma (no unit, log)",
    log: true,
    only_with: Some("gamma"),
};
/// How far gates are open.
pub(crate) const GATE_MEAN: Heat = Heat {
    source: Source::Joins(study::Figure::GateMean),
    title: "Mean gate per layer over training",
    bar: "gate, mean over tokens (no unit)",
    log: false,
    only_with: Some("gate"),
};
/// How many gates are at an end of their range.
pub(crate) const GATE_SATURATED: Heat = Heat {
    source: Source::Joins(study::Figure::GateSaturated),
    title: "Saturated gates per layer over training",
    bar: "share of gates in the outer 5 % of their range (0 to 1)",
    log: false,
    only_with: Some("gate"),
};
/// Whether updates go along with the stream or against it.
pub(crate) const COSINE: Heat = Heat {
    source: Source::Joins(study::Figure::Cosine),
    title: "Cosine between update and residual per layer over training",
    bar: "cos(update, residual), mean over tokens (no unit)",
    log: false,
    only_with: None,
};
/// Where training explodes, attention logits grow first.
pub(crate) const LOGIT_MAX: Heat = Heat {
    source: Source::Blocks(Probe::LogitMax),
    title: "Largest attention logit per block over training",
    bar: "largest q.k / sqrt(width of a head) on the probe batch (no unit, log)",
    log: true,
    only_with: None,
};
/// Attention that has collapsed onto one token, or that never chose.
pub(crate) const ENTROPY: Heat = Heat {
    source: Source::Blocks(Probe::Entropy),
    title: "Attention entropy per block over training",
    bar: "entropy / ln N on the probe batch (0: one token, 1: even)",
    log: false,
    only_with: None,
};
/// Tokens that have become alike.
pub(crate) const SIMILARITY: Heat = Heat {
    source: Source::Blocks(Probe::Similarity),
    title: "Likeness of tokens per block over training",
    bar: "mean cosine between tokens of an image behind the block, on the probe batch (no unit)",
    log: false,
    only_with: None,
};
