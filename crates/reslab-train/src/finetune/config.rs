//! The table `[finetune]`, checked.

use reslab_config::{ConfigError, parse, require};
use reslab_model::{LoadOptions, Resize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table `[finetune]`: what becomes of the weights of `model.pretrained`, and which of them are trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinetuneConfig {
    /// Whether the network starts with the file's weights, or as a new one of the file's sizes (`new`: from scratch).
    pub weights: WeightsFrom,
    /// The file's learned scales: `keep` trains them on, `freeze` holds them. `{ reset = v }` sets all to v, which changes the network's function and tears down
    /// what was learned. `fold` multiplies them into the projection before them and sets them to 1, `{ fold_reset = v }` sets them to v and divides the projection by v: both keep the function, and change only how it is parametrised.
    pub gamma: GammaRule,
    /// Whether joins may have parameters that the file lacks (gates, gammas); they then start as in a new network, behind what the file has learned.
    pub new_joins: bool,
    /// The classifier: the file's (`keep`; its classes must be the data's), or a new one.
    pub head: HeadRule,
    /// Which weights are trained: all, or the classifier alone (`frozen`: a linear probe).
    pub backbone: Backbone,
    /// Layer-wise learning-rate decay d, in (0, 1]: block b of L learns at d^(L - b) of the rate, the embeddings at d^(L + 1), head and final norm at the whole (BEiT, arXiv:2106.08254). 1: all alike.
    pub layer_decay: f64,
    /// How position embeddings are brought to another grid of patches: as the file's own code does it (`file`), or as timm (bicubic, antialiased), transformers (bicubic) or DINOv2's authors (bicubic, by a factor slightly off) do.
    pub positions: Positions,
    /// k-NN classification of the validation images by the features before a step is taken, or "none".
    pub knn: KnnRule,
}

/// Where a run's first weights come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightsFrom {
    /// From the file.
    File,
    /// Drawn, as for any new network.
    New,
}

/// What becomes of the file's gammas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GammaRule {
    /// They are trained on.
    Keep,
    /// They stay as they are.
    Freeze,
    /// They go into the projection before them, and are 1.
    Fold,
    /// All are set to this.
    Reset(f64),
    /// All are set to this, and the projection before them takes up the difference.
    FoldReset(f64),
}

/// How position embeddings are brought to another grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// As the file's own code.
    File,
    /// As timm.
    Timm,
    /// As transformers.
    Hf,
    /// As DINOv2's authors.
    Dinov2,
}

impl Positions {
    /// The convention; `None`: the file's own.
    pub(crate) fn resize(self) -> Option<Resize> {
        match self {
            Self::File => None,
            Self::Timm => Some(Resize::Timm),
            Self::Hf => Some(Resize::Hf),
            Self::Dinov2 => Some(Resize::Dinov2),
        }
    }
}

/// Which weights are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backbone {
    /// All.
    Train,
    /// The classifier alone.
    Frozen,
}

/// Where the classifier comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeadRule {
    /// From the file.
    Keep,
    /// Initialised as in a new network.
    New,
}

/// Whether and how k-NN looks at the features.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KnnRule {
    /// Not at all.
    Off(Off),
    /// By this.
    On(Knn),
}

/// The word for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// Off.
    None,
}

/// Classification by the nearest neighbours among the training images (Wu et al. 2018, arXiv:1805.01978, section 3.4; as DINO evaluates).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Knn {
    /// Training images that are neighbours, spread evenly over the split; at most its size.
    pub images: u64,
    /// Neighbours that vote.
    pub k: u64,
    /// Votes count exp(cosine / temperature).
    pub temperature: f64,
}

impl FinetuneConfig {
    /// Parses the table `[finetune]` and checks it alone.
    ///
    /// # Errors
    /// Names the key.
    pub fn parse(table: &toml::Table) -> Result<Self, ConfigError> {
        let config: Self = parse("finetune", table)?;
        let decay = config.layer_decay;
        require(decay > 0.0 && decay <= 1.0, "finetune.layer_decay", || {
            format!("must be above 0 and at most 1, but is {decay}")
        })?;
        match config.gamma {
            GammaRule::Reset(value) => {
                require(value.is_finite(), "finetune.gamma.reset", || format!("must be finite, but is {value}"))?
            }
            GammaRule::FoldReset(value) => require(value.is_normal(), "finetune.gamma.fold_reset", || {
                format!("must be finite and not 0, as the projection is divided by it, but is {value}")
            })?,
            GammaRule::Keep | GammaRule::Freeze | GammaRule::Fold => {}
        }
        let of_file = matches!(config.gamma, GammaRule::Keep | GammaRule::Freeze) && config.head == HeadRule::New;
        require(config.weights == WeightsFrom::File || of_file, "finetune.weights", || {
            "\"new\" takes nothing from the file, so gamma must be \"keep\" or \"freeze\", and head \"new\"".to_owned()
        })?;
        if let Some(knn) = config.knn() {
            require(knn.k >= 1 && knn.k <= knn.images, "finetune.knn.k", || {
                format!("must be from 1 to the {} images of finetune.knn.images, but is {}", knn.images, knn.k)
            })?;
            let temperature = knn.temperature;
            require(temperature.is_finite() && temperature > 0.0, "finetune.knn.temperature", || {
                format!("must be finite and above 0, but is {temperature}")
            })?;
        }
        Ok(config)
    }

    /// What may differ between file and network.
    pub(crate) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            resize: self.positions.resize(),
            replace_head: self.head == HeadRule::New,
            new_joins: self.new_joins,
            // A network without gamma can take what a fold makes of the file's.
            loose_gammas: matches!(self.gamma, GammaRule::Fold | GammaRule::FoldReset(_)),
        }
    }

    /// How k-NN looks at the features, if it does.
    pub fn knn(&self) -> Option<Knn> {
        match self.knn {
            KnnRule::Off(_) => None,
            KnnRule::On(knn) => Some(knn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "weights = 'file'\ngamma = 'keep'\nnew_joins = false\nhead = 'new'\nbackbone = 'train'\nlayer_decay = 0.75\n\
                        positions = 'timm'\nknn = { images = 100, k = 20, temperature = 0.07 }\n";

    fn parse(from: &str, to: &str) -> Result<FinetuneConfig, ConfigError> {
        assert!(GOOD.contains(from));
        FinetuneConfig::parse(&GOOD.replace(from, to).parse().unwrap())
    }

    #[test]
    fn every_rule_for_gamma_is_read() {
        for (text, rule) in [
            ("'keep'", GammaRule::Keep),
            ("'freeze'", GammaRule::Freeze),
            ("'fold'", GammaRule::Fold),
            ("{ reset = 1e-5 }", GammaRule::Reset(1e-5)),
            ("{ reset = 0 }", GammaRule::Reset(0.0)),
            ("{ fold_reset = 1e-5 }", GammaRule::FoldReset(1e-5)),
        ] {
            assert_eq!(parse("'keep'", text).unwrap().gamma, rule, "{text}");
        }
        assert_eq!(parse("knn = { images = 100, k = 20, temperature = 0.07 }", "knn = 'none'").unwrap().knn(), None);
    }

    #[test]
    fn every_value_out_of_range_is_refused_at_its_key() {
        for (from, to, key) in [
            ("0.75", "0.0", "finetune.layer_decay"),
            ("0.75", "1.5", "finetune.layer_decay"),
            ("0.75", "nan", "finetune.layer_decay"),
            ("'keep'", "{ fold_reset = 0.0 }", "finetune.gamma.fold_reset"),
            ("'keep'", "{ reset = inf }", "finetune.gamma.reset"),
            ("'keep'", "'kept'", "finetune.gamma"),
            ("k = 20", "k = 0", "finetune.knn.k"),
            ("k = 20", "k = 101", "finetune.knn.k"),
            ("0.07", "0.0", "finetune.knn.temperature"),
            ("'train'", "'froze'", "finetune.backbone"),
            ("head = 'new'\n", "", "finetune.head"),
        ] {
            assert_eq!(parse(from, to).unwrap_err().key, key, "{to}");
        }
    }
}
