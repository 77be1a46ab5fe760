//! `dataset = "imagefolder"`: its keys, and the splits that it makes.

use std::path::Path;
use std::sync::Arc;

use reslab_config::{ConfigError, require};
use reslab_image::{Folder, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Device;

use crate::select::select;
use crate::stream::{Images, Pool, Stream};
use crate::{DataConfig, DataError, Normalization, NormalizationKind, RandAugment, RandomResizedCrop, Split, Splits};

/// The value of `data.dataset` that stands for a folder of the user's own.
pub const IMAGE_FOLDER: &str = "imagefolder";

/// Most worker threads: a guard against a slip.
const MAX_WORKERS: u32 = 1_024;

/// What is done about an image that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnBroken {
    /// It is named in the log, left out of evaluations, and replaced in training by the next image that can be read.
    Skip,
    /// The run ends with its name.
    Fail,
}

/// How images of a folder are looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FolderSettings {
    pub(crate) size: u32,
    pub(crate) crop_ratio: f64,
    pub(crate) random_resized_crop: Option<RandomResizedCrop>,
    pub(crate) rand_augment: Option<RandAugment>,
    pub(crate) normalization: NormalizationKind,
    /// What RandAugment moves in from outside: the normalisation's mean colour.
    pub(crate) fill: [u8; 3],
    pub(crate) broken: OnBroken,
    pub(crate) workers: u32,
}

impl FolderSettings {
    /// Those of a table; every key must be there.
    pub(crate) fn of(config: &DataConfig) -> Result<Self, ConfigError> {
        let missing =
            |key: &str| ConfigError::new(format!("data.{key}"), "missing; dataset = \"imagefolder\" needs it");
        require(config.channels.is_none(), "data.channels", || {
            "images of a folder have 3 channels; leave it out".to_owned()
        })?;
        let kind = config.normalization.ok_or_else(|| missing("normalization"))?;
        let (mean, _) = kind.figures(3).ok_or_else(|| {
            let problem = "\"data\" would read every image of the folder first; use \"imagenet\" or \"half\"";
            ConfigError::new("data.normalization", problem)
        })?;
        let settings = Self {
            size: config.image_size.ok_or_else(|| missing("image_size"))?,
            crop_ratio: config.crop_ratio.ok_or_else(|| missing("crop_ratio"))?,
            random_resized_crop: config
                .random_resized_crop
                .ok_or_else(|| missing("random_resized_crop"))?
                .on()
                .copied(),
            rand_augment: config.rand_augment.as_ref().and_then(|switch| switch.on().copied()),
            normalization: kind,
            fill: std::array::from_fn(|channel| (mean[channel] * 255.0).round_ties_even().min(255.0) as u8),
            broken: config.broken.ok_or_else(|| missing("broken"))?,
            workers: config.workers.ok_or_else(|| missing("workers"))?,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), ConfigError> {
        require(self.crop_ratio > 0.0 && self.crop_ratio <= 1.0, "data.crop_ratio", || {
            format!("must be above 0 and at most 1, but is {}", self.crop_ratio)
        })?;
        require((1..=MAX_WORKERS).contains(&self.workers), "data.workers", || {
            format!("must be 1 to {MAX_WORKERS} threads, but is {}", self.workers)
        })?;
        self.random_resized_crop.map_or(Ok(()), |crop| crop.check())?;
        self.rand_augment.map_or(Ok(()), |augment| augment.check())
    }
}

/// Keys that only a folder has: refused elsewhere.
pub(crate) fn check_absent(config: &DataConfig) -> Result<(), ConfigError> {
    let keys = [
        ("root", config.root.is_some()),
        ("crop_ratio", config.crop_ratio.is_some()),
        ("random_resized_crop", config.random_resized_crop.is_some()),
        ("rand_augment", config.rand_augment.is_some()),
        ("workers", config.workers.is_some()),
        ("broken", config.broken.is_some()),
        ("root_sha256", config.root_sha256.is_some()),
    ];
    match keys.into_iter().find(|(_, is_there)| *is_there) {
        Some((key, _)) => Err(ConfigError::new(format!("data.{key}"), "only dataset = \"imagefolder\" has this key")),
        None => Ok(()),
    }
}

/// Lists the folder of a table, and compares it with the listing that a plan has pinned.
pub(crate) fn open(config: &DataConfig) -> Result<Folder, ConfigError> {
    let missing = || ConfigError::new("data.root", "missing; dataset = \"imagefolder\" needs it");
    let root = config.root.as_ref().ok_or_else(missing)?;
    let folder = Folder::list(Path::new(root)).map_err(|error| ConfigError::new("data.root", error.to_string()))?;
    let digest = folder.digest();
    let planned = config.root_sha256.as_ref().unwrap_or(&digest);
    require(*planned == digest, "data.root_sha256", || {
        format!(
            "names and sizes of the images in {root} had the digest {planned} when the run was planned, and now have {digest}; plan it \
             again"
        )
    })?;
    Ok(folder)
}

/// Images that are kept of each class.
pub(crate) fn per_class(folder: &Folder, part: Part) -> Vec<u64> {
    let mut counts = vec![0; folder.classes().len()];
    for file in folder.files(part) {
        counts[usize::from(file.class)] += 1;
    }
    counts
}

/// The splits of a folder; `val/` is the test split, and validation is cut from `train/`.
pub(crate) fn build(config: &DataConfig, folder: &Arc<Folder>, device: Device) -> Result<Splits, DataError> {
    let (shape, counts, settings) = (config.shape()?, config.counts()?, FolderSettings::of(config)?);
    let labels: Arc<[Option<u16>]> = match &config.classes {
        None => (0..folder.classes().len() as u16).map(Some).collect(),
        Some(kept) => {
            let label = |class: u16| kept.iter().position(|of| *of == class).map(|label| label as u16);
            (0..folder.classes().len() as u16).map(label).collect()
        }
    };
    let kept = |part: Part| -> (Vec<u32>, Vec<u16>) {
        let label = |(place, file): (u32, &reslab_image::File)| Some((place, labels[usize::from(file.class)]?));
        (0..).zip(folder.files(part)).filter_map(label).unzip()
    };
    let (train_part, train_labels) = kept(Part::Train);
    let chosen = select(&train_labels, counts.train, counts.val);
    let pool = Arc::new(Pool::new(settings.workers)?);
    let split = |part: Part, which: Vec<u32>| {
        let images = Images { folder: Arc::clone(folder), part, which, labels: Arc::clone(&labels), settings };
        Split::of_files(Stream::new(images, Arc::clone(&pool), device))
    };
    let of = |places: &[usize]| places.iter().map(|place| train_part[*place]).collect();
    Ok(Splits {
        norm: Normalization::fixed(settings.normalization, 3, 255, device)?,
        train: split(Part::Train, of(&chosen.train)),
        val: split(Part::Train, of(&chosen.val)),
        test: split(Part::Val, kept(Part::Val).0),
        shape,
        notices: notices(folder),
    })
}

/// What is to be told about a folder before anything is read from it.
fn notices(folder: &Folder) -> Vec<String> {
    let others = folder.others();
    let count = |part| folder.files(part).len();
    let found = format!(
        "{}: {} classes, {} images in train/, {} in val/",
        folder.root().display(),
        folder.classes().len(),
        count(Part::Train),
        count(Part::Val)
    );
    let ignored = others
        .first()
        .map(|first| format!("{} other files are not read, the first: {}", others.len(), first.display()));
    [found].into_iter().chain(ignored).collect()
}
