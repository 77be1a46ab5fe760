//! The table `[data]` of a sweep file.

use reslab_config::{ConfigError, Count, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DataShape, shape};

/// Table `[data]`: which images, how many, and how they are augmented.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Name of the data set: digits (embedded), mnist, fashion-mnist, cifar10 or cifar100.
    pub dataset: String,
    /// Images to train on, at least 1: a number (a stratified subset, the same for every seed) or "all" that validation leaves.
    pub train_images: Count,
    /// Images cut from the training part for validation (stratified, the same for every seed). 0: no validation. "all" is refused.
    pub val_images: Count,
    /// Pixels of black border on each side before a random crop back to the image's size. 0: no crop.
    pub crop_pad: u32,
    /// Whether half of the training images are mirrored left to right. false: none.
    pub flip: bool,
    /// Mixup's alpha: two images are blended with a weight from Beta(alpha, alpha). 0: off. With cutmix on too, each batch takes one of the two.
    pub mixup: f64,
    /// CutMix's alpha: a box of area 1 - lam, lam from Beta(alpha, alpha), comes from another image. 0: off.
    pub cutmix: f64,
}

/// How many images each split has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitCounts {
    /// Images to train on.
    pub train: u64,
    /// Images of the validation split.
    pub val: u64,
    /// Images of the test split.
    pub test: u64,
}

impl DataConfig {
    /// Parses and checks the table `[data]`.
    ///
    /// # Errors
    /// Names the key: an unknown data set, a number larger than what exists, a value out of range.
    pub fn parse(table: &toml::Table) -> Result<Self, ConfigError> {
        let config: Self = reslab_config::parse("data", table)?;
        config.counts()?;
        config.check_augmentation(&shape(&config.dataset)?)?;
        Ok(config)
    }

    /// How many images each split has; known without any file.
    ///
    /// # Errors
    /// At the key that asks for more images than there are, for none to train on, or for an unknown data set.
    pub fn counts(&self) -> Result<SplitCounts, ConfigError> {
        let shape = shape(&self.dataset)?;
        let all = shape.train_images;
        let part = format!("the training part of `{}` has {all} images", self.dataset);
        let val = match self.val_images {
            Count::Number(val) => val,
            Count::All => {
                return Err(ConfigError::new(
                    "data.val_images",
                    format!("\"all\" leaves no image to train on: {part}"),
                ));
            }
        };
        require(val < all, "data.val_images", || format!("must leave an image to train on, but is {val}: {part}"))?;
        let left = all - val;
        let train = match self.train_images {
            Count::Number(train) => train,
            Count::All => left,
        };
        require(train > 0, "data.train_images", || "must be at least 1, but is 0".to_owned())?;
        require(train <= left, "data.train_images", || {
            format!("must be at most {left}, but is {train}: {part}, {val} of them for validation")
        })?;
        Ok(SplitCounts { train, val, test: shape.test_images })
    }

    fn check_augmentation(&self, shape: &DataShape) -> Result<(), ConfigError> {
        let size = shape.height.min(shape.width);
        require(i64::from(self.crop_pad) < size, "data.crop_pad", || {
            format!("must be below the image's size, {size} pixels, but is {}", self.crop_pad)
        })?;
        for (key, alpha) in [("data.mixup", self.mixup), ("data.cutmix", self.cutmix)] {
            require(alpha.is_finite() && alpha >= 0.0, key, || {
                format!("must be finite and at least 0, but is {alpha}")
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table `[data]` on digits with everything off, one key of it set to `value`.
    pub(crate) fn with(key: &str, value: &str) -> Result<DataConfig, ConfigError> {
        let mut table: toml::Table = "dataset = 'digits'\ntrain_images = 'all'\nval_images = 300\n\
            crop_pad = 0\nflip = false\nmixup = 0\ncutmix = 0"
            .parse()
            .expect("a table");
        let set: toml::Table = format!("{key} = {value}").parse().expect("a value");
        table.extend(set);
        DataConfig::parse(&table)
    }

    #[track_caller]
    fn refused(key: &str, value: &str, parts: &[&str]) {
        let error = with(key, value).expect_err("refused");
        assert_eq!(error.key, format!("data.{key}"));
        for part in parts {
            assert!(error.problem.contains(part), "{error} lacks {part:?}");
        }
    }

    #[test]
    fn a_good_table_parses_and_says_its_counts() {
        let config = with("crop_pad", "2").expect("valid");
        assert_eq!(config.counts(), Ok(SplitCounts { train: 1142, val: 300, test: 355 }));
        assert_eq!((config.crop_pad, config.mixup), (2, 0.0));
    }

    #[test]
    fn too_many_images_are_refused_with_the_number_that_exists() {
        refused("train_images", "1143", &["at most 1142", "but is 1143", "1442 images", "300 of them"]);
        refused("val_images", "1442", &["1442", "leave an image"]);
        refused("train_images", "0", &["at least 1"]);
        assert!(with("train_images", "1142").is_ok());
    }

    #[test]
    fn validation_can_be_nothing_but_not_everything() {
        refused("val_images", "'all'", &["leaves no image to train on"]);
        let none = with("val_images", "0").expect("no validation");
        assert_eq!(none.counts(), Ok(SplitCounts { train: 1442, val: 0, test: 355 }));
    }

    #[test]
    fn values_out_of_range_and_unknown_keys_are_refused() {
        refused("crop_pad", "8", &["below", "8 pixels"]);
        refused("mixup", "-0.1", &["at least 0"]);
        refused("cutmix", "nan", &["finite"]);
        refused("cutmix", "inf", &["finite"]);
        refused("mixupp", "0.1", &["did you mean `mixup`"]);
        refused("dataset", "'digit'", &["did you mean `digits`"]);
        refused("val_images", "'most'", &["\"all\""]);
    }
}
