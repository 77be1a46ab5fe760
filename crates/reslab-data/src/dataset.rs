//! The data sets that reslab knows: what their images look like, known without any file.

use std::borrow::Cow;

use reslab_config::{ConfigError, nearest};
use reslab_fetch::decode::DataShape;

use crate::digits::INK;
use crate::folder::IMAGE_FOLDER;

/// A data set: its name in a config, its shape, where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// The value of `data.dataset`.
    pub name: &'static str,
    /// What its images look like.
    pub shape: DataShape,
    /// Training images of each class, validation not yet cut from them.
    pub train_per_class: PerClass,
    /// Test images of each class.
    pub test_per_class: PerClass,
    /// The byte of a white pixel.
    pub white: u8,
    /// One line for a list.
    pub summary: &'static str,
    /// Who made it, and where it is described.
    pub source: &'static str,
    /// The licence that its authors state.
    pub licence: &'static str,
}

/// How many images of each class a part has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PerClass {
    /// So many of each.
    Same(u64),
    /// Counted, class by class.
    Each(Cow<'static, [u64]>),
}

impl PerClass {
    /// Images of these classes together.
    pub(crate) fn sum(&self, classes: &[u16]) -> u64 {
        let of = |class: &u16| match self {
            Self::Same(images) => *images,
            Self::Each(images) => images[usize::from(*class)],
        };
        classes.iter().map(of).sum()
    }
}

impl Dataset {
    /// Whether its images are part of the program, so that no file is looked for.
    pub fn is_embedded(&self) -> bool {
        self.name == DIGITS
    }
}

/// The name of the embedded data set.
pub(crate) const DIGITS: &str = "digits";

const fn each(images: &'static [u64]) -> PerClass {
    PerClass::Each(Cow::Borrowed(images))
}

const fn grey(size: i64, train_images: u64, test_images: u64) -> DataShape {
    DataShape { channels: 1, height: size, width: size, classes: 10, train_images, test_images }
}

const fn cifar(classes: i64) -> DataShape {
    DataShape { channels: 3, height: 32, width: 32, classes, train_images: 50_000, test_images: 10_000 }
}

/// All data sets, the embedded one first.
pub static DATASETS: [Dataset; 5] = [
    Dataset {
        name: DIGITS,
        // Every fifth image of a class is a test image: see `digits`.
        shape: grey(8, 1_442, 355),
        train_per_class: each(&[143, 146, 142, 147, 145, 146, 145, 144, 140, 144]),
        test_per_class: each(&[35, 36, 35, 36, 36, 36, 36, 35, 34, 36]),
        white: INK,
        summary: "handwritten digits, 8x8, grey; embedded in the program",
        source: "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning \
                 Repository, 1998, doi:10.24432/C50P49; its 1,797 test images, as scikit-learn distributes them",
        licence: "CC BY 4.0",
    },
    Dataset {
        name: "mnist",
        shape: grey(28, 60_000, 10_000),
        train_per_class: each(&[5_923, 6_742, 5_958, 6_131, 5_842, 5_421, 5_918, 6_265, 5_851, 5_949]),
        test_per_class: each(&[980, 1_135, 1_032, 1_010, 982, 892, 958, 1_028, 974, 1_009]),
        white: 255,
        summary: "handwritten digits, 28x28, grey",
        source: "Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits",
        licence: "CC BY-SA 3.0",
    },
    Dataset {
        name: "fashion-mnist",
        shape: grey(28, 60_000, 10_000),
        train_per_class: PerClass::Same(6_000),
        test_per_class: PerClass::Same(1_000),
        white: 255,
        summary: "articles of clothing, 28x28, grey",
        source: "H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST, 2017, arXiv:1708.07747",
        licence: "MIT",
    },
    Dataset {
        name: "cifar10",
        shape: cifar(10),
        train_per_class: PerClass::Same(5_000),
        test_per_class: PerClass::Same(1_000),
        white: 255,
        summary: "photographs of 10 classes, 32x32, colour",
        source: "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        licence: "none stated; the authors ask to cite the report",
    },
    Dataset {
        name: "cifar100",
        shape: cifar(100),
        train_per_class: PerClass::Same(500),
        test_per_class: PerClass::Same(100),
        white: 255,
        summary: "photographs of 100 classes, 32x32, colour",
        source: "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        licence: "none stated; the authors ask to cite the report",
    },
];

/// The data set of that name.
///
/// # Errors
/// At `data.dataset`, with the nearest name.
pub fn dataset(name: &str) -> Result<&'static Dataset, ConfigError> {
    if let Some(found) = DATASETS.iter().find(|known| known.name == name) {
        return Ok(found);
    }
    let names: Vec<&str> = DATASETS.iter().map(|known| known.name).chain([IMAGE_FOLDER]).collect();
    let hint = nearest(name, names.iter().copied()).map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
    let problem = format!("no data set `{name}`{hint} Known: {}", names.join(", "));
    Err(ConfigError::new("data.dataset", problem))
}

/// The shape of the data set of that name, without any file.
///
/// # Errors
/// At `data.dataset`, with the nearest name.
pub fn shape(name: &str) -> Result<DataShape, ConfigError> {
    dataset(name).map(|found| found.shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_one() {
        let error = shape("fasion-mnist").expect_err("a typo").to_string();
        assert!(
            error.starts_with("data.dataset: no data set `fasion-mnist`; did you mean `fashion-mnist`?"),
            "{error}"
        );
        let far = shape("zzz").expect_err("nothing like it").to_string();
        assert!(!far.contains("did you mean") && far.contains("cifar100"), "{far}");
    }

    #[test]
    fn every_name_has_a_shape_that_fits_its_published_files() {
        for set in &DATASETS {
            assert_eq!(shape(set.name), Ok(set.shape));
            assert!(set.shape.classes > 1 && set.shape.train_images > set.shape.test_images);
            let classes: Vec<u16> = (0..set.shape.classes as u16).collect();
            let counts = (set.train_per_class.sum(&classes), set.test_per_class.sum(&classes));
            assert_eq!(counts, (set.shape.train_images, set.shape.test_images), "{}: over all classes", set.name);
            let Some(files) = reslab_fetch::dataset(set.name) else { continue };
            let (images, pixels) = (set.shape.train_images + set.shape.test_images, set.shape.image_bytes() as u64);
            let beside = match set.name {
                "cifar10" => images,
                "cifar100" => 2 * images,
                _ => 2 * (16 + 8) + images,
            };
            let published: u64 = files.files.iter().map(|file| file.bytes).sum();
            assert_eq!(published, images * pixels + beside, "{}: pixels, labels and headers", set.name);
        }
    }
}
