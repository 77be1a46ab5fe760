//! The table `[data]` of a sweep file.

use std::sync::Arc;

use reslab_config::{ConfigError, Count, require};
use reslab_image::{Folder, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::folder::{self, FolderSettings, IMAGE_FOLDER};
use crate::{DataShape, Dataset, OnBroken, PerClass, RandAugment, RandomErasing, RandomResizedCrop, Switch, dataset};

/// Table `[data]`: which images, how many, and how they are augmented.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Name of the data set: digits (embedded), mnist, fashion-mnist, cifar10, cifar100, or "imagefolder": class folders of JPEG, PNG and
    /// WebP files under `root`/train and `root`/val, as ImageNet has them; val/ is the test split.
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
    /// Only these classes, at least two, relabelled 0, 1, .. in this order. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<u16>>,
    /// Side in pixels of the square that the network sees. Sets in memory: the whole image, bicubic with antialiasing as by Pillow, when it is
    /// loaded; all are held at this size. Absent: as they are. imagefolder needs it: see `crop_ratio` and `random_resized_crop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_size: Option<u32>,
    /// Channels of the network's input: 3 repeats grey images three times. Absent: as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Mean and standard deviation that images are normalised with: those of the images that are trained on, those of ImageNet (.485 .456 .406 and
    /// .229 .224 .225, of a white of 1), or .5 and .5. Absent: "data". imagefolder needs one of the last two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalization: Option<NormalizationKind>,
    /// Random erasing, of the normalised image, as timm defines it: with `probability` a box of a share of the `area` (from, to; timm: [.02, .3333])
    /// and an aspect of `min_aspect` (timm: .3) to its inverse becomes 0 (`mode = "const"`) or normal noise ("pixel"). Absent or "none": off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_erasing: Option<Switch<RandomErasing>>,
    /// imagefolder only: the folder that has train/ and val/. Names and sizes of its images become part of the run's identity when it is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// imagefolder only: side of the centre that evaluations see over the image's shorter side (timm's crop_pct): it is resized to
    /// floor(image_size / crop_ratio), bicubic with antialiasing, then cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop_ratio: Option<f64>,
    /// imagefolder only: the part that training sees, as torchvision's RandomResizedCrop draws it, resized bicubic with antialiasing;
    /// ImageNet: `{ scale = [0.08, 1.0], ratio = [0.75, 1.3333] }`. "none": what evaluations see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_resized_crop: Option<Switch<RandomResizedCrop>>,
    /// imagefolder only: RandAugment as timm defines it, `ops` of 15 operations per image, each done with `probability` (timm: .5) at `magnitude` (0 to
    /// 10) with a normal spread of `magnitude_std`; `increasing`: all change more with a larger magnitude. Absent or "none": off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rand_augment: Option<Switch<RandAugment>>,
    /// imagefolder only: threads that read, decode and augment images while the step before is computed. Their number changes no bit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// imagefolder only: an image that can't be read is named in log.txt and left out (in training the next one takes its place), or
    /// ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<OnBroken>,
    /// Digest of the folder's listing, which the plan writes: another listing is refused.
    #[schemars(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_sha256: Option<String>,
    /// The listing, made once when the table is parsed.
    #[serde(skip)]
    pub(crate) folder: Option<Arc<Folder>>,
}

/// Whose mean and standard deviation images are normalised with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NormalizationKind {
    /// The images that are trained on.
    Data,
    /// ImageNet's: DeiT, CaiT, DINOv2, DINOv3.
    Imagenet,
    /// A half each: networks of the "augreg" family.
    Half,
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
        let mut config: Self = reslab_config::parse("data", table)?;
        if config.dataset == IMAGE_FOLDER {
            FolderSettings::of(&config)?;
            config.folder = Some(Arc::new(folder::open(&config)?));
        } else {
            folder::check_absent(&config)?;
            config.check_channels(dataset(&config.dataset)?)?;
        }
        require(config.image_size.is_none_or(|size| (1..=MAX_SIZE).contains(&size)), "data.image_size", || {
            format!("must be 1 to {MAX_SIZE} pixels, but is {}", config.image_size.unwrap_or(0))
        })?;
        if let Some(classes) = &config.classes {
            check_classes(classes, config.whole()?.0.classes)?;
        }
        config.counts()?;
        config.check_augmentation(&config.shape()?)?;
        Ok(config)
    }

    /// What the plan adds to the table, so that it is of these data for ever: the digest of a folder's listing. Parsed again with it, another
    /// listing is refused.
    pub fn pins(&self) -> toml::Table {
        let digest = self.folder.iter().map(|folder| ("root_sha256".to_owned(), folder.digest().into()));
        toml::Table::from_iter(digest)
    }

    /// The data set with all its classes as it is, and the training and test images of each class.
    fn whole(&self) -> Result<(DataShape, [PerClass; 2]), ConfigError> {
        let Some(folder) = &self.folder else {
            let set = dataset(&self.dataset)?;
            return Ok((set.shape, [set.train_per_class.clone(), set.test_per_class.clone()]));
        };
        let (classes, size) = (folder.classes().len() as i64, i64::from(self.image_size.unwrap_or(0)));
        let [train, test] = [Part::Train, Part::Val].map(|part| folder.files(part).len() as u64);
        let shape =
            DataShape { channels: 3, height: size, width: size, classes, train_images: train, test_images: test };
        Ok((shape, [Part::Train, Part::Val].map(|part| PerClass::Each(folder::per_class(folder, part).into()))))
    }

    /// What the images look like to the network, and how many there are; known without opening an image.
    ///
    /// # Errors
    /// At `data.dataset`, with the nearest name.
    pub fn shape(&self) -> Result<DataShape, ConfigError> {
        let (mut shape, [train, test]) = self.whole()?;
        if let Some(classes) = &self.classes {
            shape.classes = classes.len() as i64;
            (shape.train_images, shape.test_images) = (train.sum(classes), test.sum(classes));
        }
        if let Some(size) = self.image_size {
            (shape.height, shape.width) = (i64::from(size), i64::from(size));
        }
        if let Some(channels) = self.channels {
            shape.channels = i64::from(channels);
        }
        Ok(shape)
    }

    /// How many images each split has; known without any file.
    ///
    /// # Errors
    /// At the key that asks for more images than there are, for none to train on, or for an unknown data set.
    pub fn counts(&self) -> Result<SplitCounts, ConfigError> {
        let shape = self.shape()?;
        let all = shape.train_images;
        let of_classes = if self.classes.is_some() { ", in these classes," } else { "" };
        let part = format!("the training part of `{}` has{of_classes} {all} images", self.dataset);
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

    /// Of a set in memory.
    fn check_channels(&self, set: &Dataset) -> Result<(), ConfigError> {
        let (own, channels) = (set.shape.channels, self.channels.map_or(set.shape.channels, i64::from));
        require(channels == own || (own == 1 && channels == 3), "data.channels", || {
            let can = if own == 1 { "1, or 3 to repeat grey three times," } else { "3" };
            format!("must be {can} for `{}`, but is {channels}", set.name)
        })?;
        require(self.normalization != Some(NormalizationKind::Imagenet) || channels == 3, "data.normalization", || {
            format!("\"imagenet\" is of 3 channels, but `{}` has {channels}; data.channels = 3 repeats them", set.name)
        })
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
        self.random_erasing.as_ref().and_then(Switch::on).map_or(Ok(()), RandomErasing::check)
    }
}

/// Largest side that images are resized to: a guard against a slip, far above any network's input.
const MAX_SIZE: u32 = 4_096;

/// At least two classes, all known, none twice.
fn check_classes(classes: &[u16], known: i64) -> Result<(), ConfigError> {
    let refuse = |problem| Err(ConfigError::new("data.classes", problem));
    if classes.len() < 2 {
        return refuse(format!("must name at least two classes, but names {}", classes.len()));
    }
    if let Some(class) = classes.iter().find(|class| i64::from(**class) >= known) {
        return refuse(format!("must be below {known}, the number of classes, but has {class}"));
    }
    match classes.iter().enumerate().find(|(nth, class)| classes[..*nth].contains(class)) {
        Some((_, class)) => refuse(format!("must name each class once, but names {class} twice")),
        None => Ok(()),
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
    fn classes_size_and_channels_change_the_shape_and_the_counts() {
        let some = with("classes", "[9, 0, 3]").expect("three classes");
        assert_eq!(some.counts(), Ok(SplitCounts { train: 144 + 143 + 147 - 300, val: 300, test: 36 + 35 + 36 }));
        assert_eq!(some.shape().map(|shape| shape.classes), Ok(3));
        let large = with("image_size", "24\nchannels = 3").expect("large").shape().expect("known");
        assert_eq!((large.channels, large.height, large.width, large.classes), (3, 24, 24, 10));
        let plain = with("crop_pad", "0").expect("valid");
        assert_eq!(plain.shape(), crate::shape("digits"), "absent keys change nothing");
        let table = toml::Table::try_from(&plain).expect("a table");
        assert_eq!(table.len(), 7, "and are not written: {table}");
    }

    #[test]
    fn classes_sizes_channels_and_normalisations_that_do_not_exist_are_refused() {
        refused("classes", "[3]", &["at least two", "names 1"]);
        refused("classes", "[3, 10]", &["below 10", "has 10"]);
        refused("classes", "[3, 4, 3]", &["3 twice"]);
        refused("image_size", "0", &["1 to 4096", "is 0"]);
        refused("channels", "2", &["1, or 3", "is 2"]);
        refused("normalization", "'imagenet'", &["3 channels", "data.channels = 3"]);
        refused("normalization", "'imagenett'", &["did you mean `imagenet`"]);
        assert!(with("normalization", "'imagenet'\nchannels = 3").is_ok());
        assert!(with("classes", "[0, 1]").is_err_and(|error| error.problem.contains("289")), "300 for validation");
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
