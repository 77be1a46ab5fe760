//! One image of a split: from its file to the pixels that a network sees.

use std::path::PathBuf;
use std::sync::Arc;

use reslab_image::{Folder, Part, Rgb, read};

use crate::DataError;
use crate::folder::{FolderSettings, OnBroken};

/// So many files in a row that can't be read are no accident.
const TRIES: usize = 100;

/// The images of a split, and how they are looked at; the workers share it.
#[derive(Debug, Clone)]
pub(crate) struct Images {
    pub(crate) folder: Arc<Folder>,
    pub(crate) part: Part,
    /// Places in the part's files.
    pub(crate) which: Vec<u32>,
    /// The label of each class, where it is kept.
    pub(crate) labels: Arc<[Option<u16>]>,
    pub(crate) settings: FolderSettings,
}

/// Who looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    /// A training step.
    Train { seed: u64, step: u64, sample: u64 },
    /// An evaluation.
    Evaluation,
}

/// What there is to see.
#[derive(Debug)]
pub(crate) struct Look {
    /// None: it can't be read, and nothing takes its place.
    pub(crate) image: Option<Rgb>,
    pub(crate) label: u16,
    /// Files that can't be read, and why.
    pub(crate) broken: Vec<String>,
}

impl Images {
    pub(crate) fn len(&self) -> usize {
        self.which.len()
    }

    /// Side of the square that a network sees.
    pub(crate) fn size(&self) -> u32 {
        self.settings.size
    }

    pub(crate) fn image_bytes(&self) -> usize {
        3 * self.size() as usize * self.size() as usize
    }

    pub(crate) fn select(&self, places: &[usize]) -> Self {
        Self { which: places.iter().map(|place| self.which[*place]).collect(), ..self.clone() }
    }

    /// The image at a place of the split. One that can't be read ends the run, or is left out of an evaluation, or its place in a training
    /// batch is taken by the next one that can.
    pub(crate) fn look(&self, place: usize, view: View) -> Result<Look, DataError> {
        let mut broken = Vec::new();
        for next in 0..TRIES.min(self.len()) {
            let file = &self.folder.files(self.part)[self.which[(place + next) % self.len()] as usize];
            let path = self.folder.path(self.part, file);
            let label = self.labels[usize::from(file.class)].expect("an image of a class that is kept");
            match read(&path) {
                Ok(image) => return Ok(Look { image: Some(self.see(image, view)), label, broken }),
                Err(problem) if self.settings.broken == OnBroken::Fail => return Err(failed(path, problem)),
                Err(problem) => broken.push(format!("{}: {problem}", path.display())),
            }
            if let View::Evaluation = view {
                return Ok(Look { image: None, label, broken });
            }
        }
        let (images, last) = (broken.len(), broken.pop().unwrap_or_default());
        Err(DataError::NoImage { images, last })
    }

    fn see(&self, image: Rgb, view: View) -> Rgb {
        let FolderSettings { size, crop_ratio, random_resized_crop, rand_augment, fill, .. } = self.settings;
        let View::Train { seed, step, sample } = view else { return image.centre(size, crop_ratio) };
        let at = (seed, step, sample);
        let image = match random_resized_crop {
            Some(crop) => image.resized(crop.draw((image.width(), image.height()), at), size, size),
            None => image.centre(size, crop_ratio),
        };
        match rand_augment {
            Some(augment) => augment.alter(image, fill, at),
            None => image,
        }
    }
}

fn failed(path: PathBuf, problem: reslab_image::Broken) -> DataError {
    DataError::Image { path: path.display().to_string(), problem }
}
