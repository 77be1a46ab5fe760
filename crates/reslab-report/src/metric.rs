//! Names of metrics, and what they say about one: its scale, its better end, and its value at chance.

/// A metric by its name in the records: `test/top1`, `val/loss`, `test/top1_ema`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Metric(String);

impl Metric {
    /// The metric of a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Its name in the records.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// What is measured, without the split and the weights: `top1`.
    fn figure(&self) -> &str {
        let figure = self.0.rsplit('/').next().unwrap_or_default();
        figure.strip_suffix("_ema").unwrap_or(figure)
    }

    /// Whether it is a share of right answers, shown in percent.
    pub fn is_accuracy(&self) -> bool {
        self.figure().starts_with("top")
    }

    /// Whether a smaller value is the better one.
    pub fn is_loss(&self) -> bool {
        self.figure() == "loss"
    }

    /// The same on the validation split: what choices are made on.
    pub fn on_validation(&self) -> Self {
        match self.0.split_once('/') {
            Some(("test" | "train", figure)) => Self(format!("val/{figure}")),
            _ => self.clone(),
        }
    }

    /// What the better values have in common: 1 where they are larger, -1 where they are smaller; `None` of a figure that is
    /// looked at and not aimed at.
    pub fn better(&self) -> Option<f64> {
        match (self.is_accuracy(), self.is_loss()) {
            (true, _) => Some(1.0),
            (_, true) => Some(-1.0),
            _ => None,
        }
    }

    /// What a network that has learned nothing scores: the score of a diverged run. `None` where that is not defined.
    pub fn at_chance(&self, num_classes: u64) -> Option<f64> {
        let classes = num_classes as f64;
        match self.figure() {
            "loss" => Some(classes.ln()),
            figure => {
                let guesses: f64 = figure.strip_prefix("top")?.parse().ok()?;
                Some((guesses / classes).min(1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_scale_direction_and_chance() {
        let cases = [
            ("test/top1", true, false, Some(0.1)),
            ("val/top5", true, false, Some(0.5)),
            ("test/top1_ema", true, false, Some(0.1)),
            ("val/loss", false, true, Some(10_f64.ln())),
            ("val/best_step", false, false, None),
        ];
        for (name, is_accuracy, is_loss, chance) in cases {
            let metric = Metric::new(name);
            assert_eq!(
                (metric.is_accuracy(), metric.is_loss(), metric.at_chance(10)),
                (is_accuracy, is_loss, chance),
                "{name}"
            );
        }
        assert_eq!(Metric::new("val/top5").at_chance(3), Some(1.0), "more guesses than classes");
        let on_validation = ["test/top1_ema", "train/loss", "val/top5", "probe/attention_entropy"].map(Metric::new);
        let on_validation = on_validation.map(|metric| metric.on_validation().name().to_owned());
        assert_eq!(on_validation, ["val/top1_ema", "val/loss", "val/top5", "probe/attention_entropy"]);
        let better = ["val/top1", "test/loss", "probe/attention_entropy", "val/best_step"].map(Metric::new);
        assert_eq!(better.map(|metric| metric.better()), [Some(1.0), Some(-1.0), None, None]);
    }
}
