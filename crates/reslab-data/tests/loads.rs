//! Whole data sets, from config to tensors: the embedded digits always, Fashion-MNIST where its files are.

use std::path::{Path, PathBuf};

use reslab_data::{DataConfig, Split, Splits, load};
use reslab_fetch::{DEBIAN_DIR, Sources};
use tch::{Device, Kind, Tensor};

fn config(dataset: &str, train: &str, val: &str) -> DataConfig {
    let text = format!(
        "dataset = '{dataset}'\ntrain_images = {train}\nval_images = {val}\ncrop_pad = 0\nflip = false\nmixup = 0\ncutmix = 0"
    );
    DataConfig::parse(&text.parse().expect("a table")).expect("a valid config")
}

fn nowhere() -> Sources {
    Sources { dirs: Vec::new(), cache: PathBuf::from("no-such-folder"), offline: true }
}

fn digits(train: &str, val: &str) -> Splits {
    load(&config("digits", train, val), &nowhere(), Device::Cpu).expect("embedded")
}

/// All images, u8 `[N, C, H, W]`, and their labels.
fn all(split: &Split) -> (Tensor, Tensor) {
    split.batches(split.len()).next().expect("images").expect("in memory")
}

fn images(split: &Split) -> Tensor {
    all(split).0
}

fn labels(split: &Split) -> Tensor {
    all(split).1
}

fn class_counts(split: &Split) -> Vec<i64> {
    Vec::try_from(labels(split).bincount::<Tensor>(None, 10)).expect("counts")
}

/// The images' bytes, one vector per image.
fn rows(split: &Split) -> Vec<Vec<u8>> {
    let pixels = Vec::<u8>::try_from(images(split).contiguous().view(-1)).expect("bytes");
    pixels.chunks(pixels.len() / split.len().max(1)).map(<[u8]>::to_vec).collect()
}

#[test]
fn digits_load_without_any_file_and_are_stratified() {
    let splits = digits("'all'", "288");
    assert_eq!((splits.train.len(), splits.val.len(), splits.test.len()), (1154, 288, 355));
    assert_eq!(images(&splits.train).size(), [1154, 1, 8, 8]);
    assert_eq!((images(&splits.train).kind(), labels(&splits.train).kind()), (Kind::Uint8, Kind::Int64));
    // A fifth of 143, 146, 142, 147, 145, 146, 145, 144, 140, 144, by largest remainder.
    assert_eq!(class_counts(&splits.val), [29, 29, 28, 29, 29, 29, 29, 29, 28, 29]);
    assert_eq!(class_counts(&splits.test), [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]);
    assert_eq!(splits.norm.mean.len(), 1);
    assert!((splits.norm.mean[0] - 4.88).abs() < 0.05 && (splits.norm.std[0] - 6.0).abs() < 0.05, "{:?}", splits.norm);
}

/// Written down so that a change of the draw, which would change every published number, is seen.
#[test]
fn the_validation_images_are_these_in_every_run() {
    let splits = digits("200", "100");
    let ink = |split: &Split| images(split).sum(Kind::Int64).int64_value(&[]);
    let first = Vec::<i64>::try_from(labels(&splits.val).narrow(0, 0, 12)).expect("labels");
    assert_eq!(
        (ink(&splits.val), ink(&splits.train), first),
        (30_740, 62_036, vec![2, 3, 6, 3, 1, 0, 2, 6, 9, 1, 7, 4])
    );
    assert_eq!(rows(&splits.val), rows(&digits("'all'", "100").val), "whatever is trained on");
    assert_ne!(rows(&splits.val), rows(&digits("200", "101").val)[..100], "negative control");
}

#[test]
fn no_image_is_in_two_splits_and_none_is_lost() {
    let splits = digits("'all'", "300");
    let mut all: Vec<Vec<u8>> = [&splits.train, &splits.val, &splits.test].into_iter().flat_map(rows).collect();
    let total = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((total, all.len()), (1797, 1797), "the 1,797 digits are all different");
}

#[test]
fn zero_validation_images_are_an_empty_split() {
    let splits = digits("'all'", "0");
    assert!(splits.val.is_empty());
    assert_eq!((splits.val.batches(10).count(), splits.train.len()), (0, 1442));
}

#[test]
fn evaluation_batches_show_every_image_once_in_order() {
    let splits = digits("'all'", "0");
    let sizes: Vec<i64> = splits.test.batches(100).map(|batch| batch.expect("in memory").0.size()[0]).collect();
    assert_eq!(sizes, [100, 100, 100, 55]);
    let parts: Vec<_> = splits.test.batches(100).map(|batch| batch.expect("in memory").1).collect();
    assert_eq!(Tensor::cat(&parts, 0), labels(&splits.test));
}

/// The digits with more keys.
fn dressed(keys: &str) -> Splits {
    let text = format!(
        "dataset = 'digits'\ntrain_images = 'all'\nval_images = 0\ncrop_pad = 0\nflip = false\nmixup = 0\ncutmix = 0\n{keys}"
    );
    let config = DataConfig::parse(&text.parse().expect("a table")).expect("a valid config");
    let splits = load(&config, &nowhere(), Device::Cpu).expect("embedded");
    let counts = config.counts().expect("known");
    assert_eq!((splits.train.len() as u64, splits.test.len() as u64), (counts.train, counts.test), "as was promised");
    assert_eq!(Some(splits.shape), config.shape().ok());
    splits
}

#[test]
fn some_classes_are_their_images_relabelled_in_the_order_given() {
    let (all, some) = (dressed(""), dressed("classes = [7, 2]"));
    for (label, class) in [7, 2].into_iter().enumerate() {
        let of = |split: &Split, label: i64| images(split).index_select(0, &labels(split).eq(label).nonzero().view(-1));
        for (all, some) in [(&all.train, &some.train), (&all.test, &some.test)] {
            assert_eq!(of(some, label as i64), of(all, class));
            assert!(of(some, label as i64) != of(all, 5), "negative control: another class");
        }
    }
    assert_eq!(some.test.len(), 35 + 35);
}

#[test]
fn size_and_channels_are_given_to_every_split() {
    let (plain, large) = (dressed(""), dressed("image_size = 16\nchannels = 3"));
    for (plain, large) in [(&plain.train, &large.train), (&plain.test, &large.test)] {
        assert_eq!(images(large).size()[1..], [3, 16, 16]);
        let channel = |nth| images(large).narrow(1, nth, 1);
        assert_eq!(channel(0), channel(1));
        assert_eq!(channel(0), channel(2));
        let (before, after) = (images(plain).mean(Kind::Double), images(large).mean(Kind::Double));
        // Cutting at black brightens, as digits have a black border.
        let shift = (after - before).double_value(&[]);
        assert!(shift.abs() < 0.3, "{shift}");
        let first = Vec::<u8>::try_from(images(plain).narrow(0, 0, 1).contiguous().view(-1)).expect("bytes");
        let resized = reslab_image::resize_plane(&first, (8, 8), (16, 16));
        let green = images(large).narrow(0, 0, 1).narrow(1, 1, 1).contiguous().view(-1);
        assert_eq!(Vec::<u8>::try_from(green).expect("bytes"), resized);
    }
    assert_eq!(large.norm.mean.len(), 3, "counted over what is trained on");
    assert_eq!(dressed("channels = 3\nnormalization = 'half'").norm.mean, [8.0; 3]);
}

#[test]
fn missing_files_are_an_error_that_says_how_to_get_them() {
    let error = load(&config("cifar10", "'all'", "0"), &nowhere(), Device::Cpu).expect_err("no files").to_string();
    assert!(error.contains("cifar10") && error.contains("--data-dir"), "{error}");
}

/// Class counts and first labels are those of the published files; mean and standard deviation are the .2860 and .3530 (of
/// pixels divided by 255) that PyTorch users know.
#[test]
fn fashion_mnist_is_read_from_its_real_files() {
    let user = std::env::var_os("RESLAB_DATA").map(PathBuf::from);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let dirs = user.into_iter().chain([checkout, PathBuf::from(DEBIAN_DIR)]).collect();
    let sources = Sources { dirs, ..nowhere() };
    if reslab_fetch::locate(reslab_fetch::dataset("fashion-mnist").expect("known"), &sources).is_err() {
        assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no Fashion-MNIST");
        println!("skipped: no Fashion-MNIST");
        return;
    }
    let splits = load(&config("fashion-mnist", "'all'", "0"), &sources, Device::Cpu).expect("good files");
    assert_eq!(images(&splits.train).size(), [60_000, 1, 28, 28]);
    assert_eq!((class_counts(&splits.train), class_counts(&splits.test)), (vec![6_000; 10], vec![1_000; 10]));
    let first = |split: &Split| Vec::<i64>::try_from(labels(split).narrow(0, 0, 5)).expect("labels");
    assert_eq!((first(&splits.train), first(&splits.test)), (vec![9, 0, 0, 3, 0], vec![9, 2, 1, 1, 6]));
    let (mean, std) = (splits.norm.mean[0] / 255.0, splits.norm.std[0] / 255.0);
    assert!((mean - 0.2860).abs() < 5e-5 && (std - 0.3530).abs() < 5e-5, "{mean} {std}");

    let small = load(&config("fashion-mnist", "6000", "5000"), &sources, Device::Cpu).expect("good files");
    assert_eq!((class_counts(&small.train), class_counts(&small.val)), (vec![600; 10], vec![500; 10]));
}
