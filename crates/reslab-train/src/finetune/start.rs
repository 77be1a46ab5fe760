//! What taking over a network has made of it, measured before its first step.

use std::collections::BTreeMap;
use std::path::Path;

use reslab_data::{Augment, Split, Splits};
use reslab_model::Vit;
use reslab_pretrained::Pretrained;
use reslab_residual::Pass;
use reslab_torch::autocast_bf16;
use reslab_torch::tch::{Kind, Tensor, no_grad_guard};

use super::config::{GammaRule, Knn};
use super::gamma;
use super::knn::{Featured, accuracy};
use crate::config::Precision;
use crate::{RunConfig, TrainError};

/// How far a network that was taken over is from the file's, before a step is taken. Features are what the classifier reads.
#[derive(Debug, Clone, PartialEq)]
pub struct StartReport {
    /// What was read, and what was left or made anew, in one line.
    pub loaded: String,
    /// `|F' - F| / |F|`, Frobenius norms over the features F of the validation images, with the file's gammas, and F' as the run starts. 0: the same function.
    pub feature_change: f64,
    /// Mean cosine between both features of an image.
    pub feature_cosine: f64,
    /// Share of the validation images that k-NN gets right by the file's features, and by those that the run starts with.
    pub knn: Option<[f64; 2]>,
}

impl StartReport {
    /// The figures as metrics of the run.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut metrics = BTreeMap::from([
            ("start/feature_change".to_owned(), self.feature_change),
            ("start/feature_cosine".to_owned(), self.feature_cosine),
        ]);
        if let Some([before, after]) = self.knn {
            metrics.insert("start/knn_before".to_owned(), before);
            metrics.insert("start/knn_after".to_owned(), after);
        }
        metrics
    }

    /// One line for a reader.
    pub fn line(&self) -> String {
        let change = 100.0 * self.feature_change;
        let mut line = format!("before step 0: features changed by {change:.2} % (cosine {:.4})", self.feature_cosine);
        if let Some([before, after]) = self.knn {
            line += &format!("; k-NN {:.2} % before, {:.2} % after", 100.0 * before, 100.0 * after);
        }
        line
    }
}

/// Gives `vit` the weights of the file at `path`, does with their gammas what the config says, and measures what that changed.
pub(crate) fn take_over(
    config: &RunConfig,
    vit: &Vit,
    path: &Path,
    (splits, augment): (&Splits, &Augment),
) -> Result<StartReport, TrainError> {
    let finetune = config.finetune.as_ref().expect("a pretrained network has a table [finetune]");
    let file = Pretrained::open(path)?;
    let loaded = vit.load(&file, &finetune.load_options())?;
    let loose = gamma::loose(&file, &loaded.loose)?;
    let drawn = gamma::neutral(vit.parameters(), &loaded.drawn);
    let look = Look { config, vit, augment };
    let before = look.at(splits, finetune.knn())?;
    let is_as_before = matches!(finetune.gamma, GammaRule::Keep | GammaRule::Freeze) && drawn.is_empty();
    gamma::apply(finetune.gamma, vit.parameters(), &loose, drawn).map_err(TrainError::Fold)?;
    // Weights that nothing touches give the same features: they are not computed twice.
    let after = if is_as_before { None } else { Some(look.at(splits, finetune.knn())?) };
    let after = after.as_ref().unwrap_or(&before);
    Ok(StartReport {
        loaded: loaded.to_string(),
        feature_change: (&after.asked.features - &before.asked.features).norm().double_value(&[])
            / before.asked.features.norm().double_value(&[]),
        feature_cosine: Tensor::cosine_similarity(&after.asked.features, &before.asked.features, 1, 1e-12)
            .mean(Kind::Double)
            .double_value(&[]),
        knn: before.knn.zip(after.knn).map(|(before, after)| [before, after]),
    })
}

/// A network and how images reach it.
struct Look<'a> {
    config: &'a RunConfig,
    vit: &'a Vit,
    augment: &'a Augment,
}

/// What a look at the network found.
struct Seen {
    asked: Featured,
    knn: Option<f64>,
}

impl Look<'_> {
    /// Features of the validation images, and how well k-NN does with them.
    fn at(&self, splits: &Splits, knn: Option<Knn>) -> Result<Seen, TrainError> {
        let asked = self.features(&splits.val)?;
        let knn = match knn {
            None => None,
            Some(knn) => {
                let places = spread(splits.train.len(), knn.images as usize);
                let neighbours = self.features(&splits.train.select(&places)?)?;
                Some(accuracy(&neighbours, &asked, splits.shape.classes, knn))
            }
        };
        Ok(Seen { asked, knn })
    }

    fn features(&self, split: &Split) -> Result<Featured, TrainError> {
        let _no_grad = no_grad_guard();
        let train = &self.config.train;
        let _precision = autocast_bf16(split.device(), train.precision == Precision::Bf16);
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for batch in split.batches((train.batch / train.accumulate) as usize) {
            let (images, classes) = batch?;
            let seen = self.vit.features(&self.augment.eval(&images)?, &mut Pass::eval());
            features.push(seen.to_kind(Kind::Float));
            labels.push(classes);
        }
        Ok(Featured { features: Tensor::cat(&features, 0), labels: Tensor::cat(&labels, 0) })
    }
}

/// `count` of `len` places, spread evenly.
fn spread(len: usize, count: usize) -> Vec<usize> {
    (0..count).map(|i| i * len / count).collect()
}
