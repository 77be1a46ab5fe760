//! `dataset = "imagefolder"`: a folder that the tests make, from its listing to batches.

use std::fs;
use std::path::{Path, PathBuf};

use reslab_config::ConfigError;
use reslab_data::{Augment, Batch, DataConfig, DataError, Order, Split, SplitCounts, Splits, Targets, load};
use reslab_fetch::Sources;
use tch::{Device, Kind, Tensor};

const SIZE: i64 = 8;
const USUAL: &str = "crop_ratio = 0.8\nrandom_resized_crop = { scale = [0.3, 1.0], ratio = [0.75, 1.3333] }\nworkers = 2\n\
    broken = 'skip'\nnormalization = 'half'\nimage_size = 8";

/// A folder of three classes with 6, 4 and 2 training and 2 test images each, of different sizes; every image has a colour of its own.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (class, (name, train)) in [("ant", 6), ("bee", 4), ("cow", 2)].into_iter().enumerate() {
        for (part, images) in [("train", train), ("val", 2)] {
            for image in 0..images {
                let path = dir.path().join(part).join(name).join(format!("{image}.png"));
                let colour = [60 * class as u8 + 20, 20 * image as u8 + 50, if part == "val" { 200 } else { 90 }];
                write(&path, (12 + image, 10 + 2 * class as u32), colour);
            }
        }
    }
    dir
}

/// A gradient, so that a part of it is not the whole.
fn write(path: &Path, (width, height): (u32, u32), colour: [u8; 3]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let pixel = |place: u32| colour.map(|byte| byte.saturating_add((2 * (place % width) + place / width) as u8));
    let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

fn parse(root: &Path, keys: &str) -> Result<DataConfig, ConfigError> {
    let mut table: toml::Table =
        "dataset = 'imagefolder'\ntrain_images = 'all'\nval_images = 3\ncrop_pad = 0\nflip = false\n\
        mixup = 0\ncutmix = 0"
            .parse()
            .unwrap();
    table.insert("root".to_owned(), root.display().to_string().into());
    table.extend(USUAL.parse::<toml::Table>().unwrap());
    let (off, on): (Vec<&str>, Vec<&str>) = keys.lines().partition(|line| line.starts_with("no "));
    table.extend(on.join("\n").parse::<toml::Table>().unwrap());
    off.iter().for_each(|key| drop(table.remove(&key[3..])));
    DataConfig::parse(&table)
}

fn open(root: &Path, keys: &str) -> (DataConfig, Splits) {
    let config = parse(root, keys).unwrap();
    let nowhere = Sources { dirs: Vec::new(), cache: PathBuf::from("no-such-folder"), offline: true };
    let splits = load(&config, &nowhere, Device::Cpu).unwrap();
    (config, splits)
}

/// What training goes through, for one seed.
struct Run {
    splits: Splits,
    augment: Augment,
    order: Order,
}

impl Run {
    fn new(root: &Path, keys: &str, seed: u64) -> Self {
        let (config, splits) = open(root, keys);
        let augment = Augment::new(&config, seed, splits.shape, &splits.norm).unwrap();
        let order = Order::new(seed, splits.train.len(), 4).unwrap();
        Self { splits, augment, order }
    }

    fn batch(&mut self, step: u64) -> Batch {
        self.augment.train(&self.splits.train, &mut self.order, step).unwrap()
    }

    /// Images and labels of a step.
    fn step(&mut self, step: u64) -> (Tensor, Vec<i64>) {
        let Batch { images, targets } = self.batch(step);
        let Targets::Hard(labels) = targets else { panic!("hard labels") };
        (images, Vec::try_from(labels).unwrap())
    }
}

fn all(split: &Split) -> (Tensor, Vec<i64>) {
    let (images, labels): (Vec<Tensor>, Vec<Tensor>) = split.batches(2).map(Result::unwrap).unzip();
    (Tensor::cat(&images, 0), Vec::try_from(Tensor::cat(&labels, 0)).unwrap())
}

#[test]
fn shape_and_counts_are_those_of_the_listing() {
    let dir = folder();
    let (config, splits) = open(dir.path(), "");
    assert_eq!(config.counts(), Ok(SplitCounts { train: 9, val: 3, test: 6 }));
    let shape = splits.shape;
    assert_eq!((shape.channels, shape.height, shape.width, shape.classes), (3, SIZE, SIZE, 3));
    assert_eq!((splits.train.len(), splits.val.len(), splits.test.len()), (9, 3, 6));
    let mut labels = [&splits.train, &splits.val].map(|split| all(split).1);
    labels.iter_mut().for_each(|labels| labels.sort_unstable());
    assert_eq!(labels, [vec![0, 0, 0, 0, 1, 1, 1, 2, 2], vec![0, 0, 1]], "stratified");
    let (some, splits) = open(dir.path(), "classes = [2, 0]\nval_images = 0");
    assert_eq!(some.counts(), Ok(SplitCounts { train: 8, val: 0, test: 4 }));
    assert_eq!((all(&splits.train).1, all(&splits.test).1), (vec![1, 1, 1, 1, 1, 1, 0, 0], vec![1, 1, 0, 0]));
}

#[test]
fn an_evaluation_sees_the_centre_of_every_image_in_order() {
    let dir = folder();
    let (_, splits) = open(dir.path(), "");
    let (images, labels) = all(&splits.test);
    assert_eq!((images.size(), images.kind(), labels), (vec![6, 3, SIZE, SIZE], Kind::Uint8, vec![0, 0, 1, 1, 2, 2]));
    for (nth, name) in ["ant/0", "ant/1", "bee/0", "bee/1", "cow/0", "cow/1"].into_iter().enumerate() {
        let image = reslab_image::read(&dir.path().join("val").join(format!("{name}.png"))).unwrap();
        let mut planes = vec![0; 3 * 64];
        image.centre(8, 0.8).write_planes(&mut planes);
        assert_eq!(Vec::<u8>::try_from(images.get(nth as i64).contiguous().view(-1)).unwrap(), planes, "{name}");
        image.centre(8, 1.0).write_planes(&mut planes);
        assert_ne!(Vec::<u8>::try_from(images.get(nth as i64).contiguous().view(-1)).unwrap(), planes, "control");
    }
    let few = splits.test.select(&[5, 0]).unwrap();
    assert_eq!(all(&few), (images.index_select(0, &Tensor::from_slice(&[5i64, 0])), vec![2, 0]));
}

/// Everything that can be on, so that nothing of it depends on who computes it.
const ALL_ON: &str = "flip = true\ncrop_pad = 1\nmixup = 0.2\ncutmix = 1.0\n\
    rand_augment = { ops = 2, magnitude = 9, magnitude_std = 0.5, probability = 0.5, increasing = true }\n\
    random_erasing = { probability = 0.5, mode = 'pixel', area = [0.1, 0.4], min_aspect = 0.3 }";

#[test]
fn any_number_of_workers_and_any_order_of_steps_gives_the_same_bits() {
    let dir = folder();
    let bits = |run: &mut Run, step: u64| {
        let Batch { images, targets } = run.batch(step);
        let Targets::Soft(shares) = targets else { panic!("mixed") };
        (images, shares)
    };
    let mut one = Run::new(dir.path(), &format!("{ALL_ON}\nworkers = 1"), 3);
    let expected: Vec<_> = (0..9).map(|step| bits(&mut one, step)).collect();
    let mut four = Run::new(dir.path(), &format!("{ALL_ON}\nworkers = 4"), 3);
    for (step, expected) in expected.iter().enumerate() {
        assert_eq!(bits(&mut four, step as u64), *expected, "step {step}");
    }
    for step in [7, 0, 0, 3, 2, 8] {
        let found = bits(&mut four, step);
        assert_eq!(found, expected[step as usize], "step {step}, out of turn");
    }
    // An evaluation in between takes nothing away.
    let _ = all(&four.splits.test);
    assert_eq!(bits(&mut four, 4), expected[4]);
    // Negative controls: another step, another seed.
    assert!(expected[1] != expected[2]);
    assert!(bits(&mut Run::new(dir.path(), ALL_ON, 4), 1) != expected[1]);
}

#[test]
fn without_a_random_crop_training_sees_what_an_evaluation_sees() {
    let dir = folder();
    let mut run = Run::new(dir.path(), "random_resized_crop = 'none'\nval_images = 0", 1);
    let (whole, labels) = all(&run.splits.train);
    let indices = Order::new(1, 12, 4).unwrap().indices(0);
    let (images, seen) = run.step(0);
    assert_eq!(seen, indices.iter().map(|index| labels[*index as usize]).collect::<Vec<_>>());
    let expected = run.augment.eval(&whole.index_select(0, &Tensor::from_slice(&indices))).unwrap();
    assert_eq!(images, expected);
    let mut cropped = Run::new(dir.path(), "val_images = 0", 1);
    let (other, same) = cropped.step(0);
    assert!(other != images && same == seen, "control: the same images, other parts");
}

/// Files that can't be read, each with its name and what is said of it.
fn broken(dir: &Path) -> [(PathBuf, &'static str); 4] {
    let [cut, empty, text, lost] =
        ["train/ant/1.png", "train/ant/4.png", "train/bee/2.png", "train/cow/0.png"].map(|file| dir.join(file));
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    fs::write(&empty, "").unwrap();
    fs::write(&text, "no image").unwrap();
    fs::remove_file(&lost).unwrap();
    std::os::unix::fs::symlink("nowhere", &lost).unwrap();
    [(cut, "decoded as PNG"), (empty, "is empty"), (text, "no JPEG, PNG or WebP"), (lost, "can't be read")]
}

#[test]
fn broken_images_are_named_once_and_replaced_in_training() {
    let dir = folder();
    let files = broken(dir.path());
    let mut run = Run::new(dir.path(), "random_resized_crop = 'none'\nval_images = 0", 1);
    assert!(run.splits.take_notices()[0].contains("3 classes, 12 images in train/, 6 in val/"));
    let good = [0usize, 2, 3, 5, 6, 7, 9, 11]; // of ant 0..6, bee 6..10, cow 10..12
    let next = |index: i64| good.iter().copied().find(|good| *good as i64 >= index).unwrap_or(0);
    let (whole, labels) = all(&run.splits.train);
    assert_eq!((whole.size()[0], labels.len()), (8, 8), "left out of an evaluation");
    let said = run.splits.take_notices();
    assert_eq!(said.len(), 4, "{said:?}");
    for ((path, problem), line) in files.iter().zip(&said) {
        assert!(line.contains(&path.display().to_string()) && line.contains(problem), "{line}");
    }
    for step in 0..6 {
        let (images, seen) = run.step(step);
        let indices = Order::new(1, 12, 4).unwrap().indices(step);
        let places: Vec<usize> =
            indices.iter().map(|index| good.iter().position(|good| *good == next(*index)).unwrap()).collect();
        let index: Vec<i64> = places.iter().map(|place| *place as i64).collect();
        let expected = run.augment.eval(&whole.index_select(0, &Tensor::from_slice(&index))).unwrap();
        assert_eq!((images, seen), (expected, places.iter().map(|place| labels[*place]).collect()), "step {step}");
    }
    assert_eq!(run.splits.take_notices(), [""; 0], "each is told once");
}

#[test]
fn a_broken_image_ends_the_run_where_that_is_asked_for() {
    let dir = folder();
    let files = broken(dir.path());
    let mut run = Run::new(dir.path(), "broken = 'fail'\nval_images = 0", 1);
    let first = |error: DataError| match error {
        DataError::Image { path, problem } => (path, problem.to_string()),
        other => panic!("{other}"),
    };
    let error = run.splits.train.batches(12).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("data.broken = \"skip\""), "{error}");
    let (path, problem) = first(error);
    assert_eq!(path, files[0].0.display().to_string(), "the first of the batch, whoever was there first");
    assert!(problem.contains(files[0].1), "{problem}");
    let failed = (0..3).find_map(|step| run.augment.train(&run.splits.train, &mut run.order, step).err());
    first(failed.expect("an epoch meets one"));
    let whole = folder();
    let mut run = Run::new(whole.path(), "broken = 'fail'", 1);
    let _ = run.step(0);
}

#[test]
fn a_folder_in_which_nothing_can_be_read_is_an_error() {
    let dir = folder();
    let (_, splits) = open(dir.path(), "");
    for class in ["ant", "bee", "cow"] {
        for part in ["train", "val"] {
            for file in fs::read_dir(dir.path().join(part).join(class)).unwrap() {
                fs::write(file.unwrap().path(), "no image").unwrap();
            }
        }
    }
    let (config, _) = open(dir.path(), "");
    let augment = Augment::new(&config, 1, splits.shape, &splits.norm).unwrap();
    let error = augment.train(&splits.train, &mut Order::new(1, 9, 4).unwrap(), 0).unwrap_err().to_string();
    assert!(error.contains("9 images in a row can't be read") && error.contains("no JPEG"), "{error}");
    assert_eq!(splits.test.batches(2).count(), 0, "an evaluation has nothing to see");
}

#[test]
fn the_plan_pins_the_listing_and_another_one_is_refused() {
    let dir = folder();
    let pins = parse(dir.path(), "").unwrap().pins();
    let keys = pins.to_string();
    assert_eq!((pins.len(), parse(dir.path(), &keys).unwrap().pins()), (1, pins), "parsed again");
    write(&dir.path().join("train/ant/9.png"), (9, 9), [1, 2, 3]);
    let error = parse(dir.path(), &keys).unwrap_err();
    assert_eq!(error.key, "data.root_sha256");
    assert!(error.problem.contains("plan it again"), "{error}");
    assert!(parse(dir.path(), "").is_ok(), "control: not pinned yet");
    let digits =
        "dataset = 'digits'\ntrain_images = 9\nval_images = 0\ncrop_pad = 0\nflip = false\nmixup = 0\ncutmix = 0";
    assert!(DataConfig::parse(&digits.parse().unwrap()).unwrap().pins().is_empty());
}

#[test]
fn keys_that_are_missing_wrong_or_of_another_set_are_named() {
    let dir = folder();
    let refused = |keys: &str, key: &str, part: &str| {
        let error = parse(dir.path(), keys).unwrap_err();
        assert_eq!(error.key, format!("data.{key}"), "{error}");
        assert!(error.problem.contains(part), "{error} lacks {part:?}");
    };
    for key in ["root", "image_size", "crop_ratio", "random_resized_crop", "workers", "broken", "normalization"] {
        refused(&format!("no {key}"), key, "imagefolder\" needs it");
        let value = ["root", "crop_ratio", "random_resized_crop", "workers", "broken"].contains(&key);
        if value {
            let only = ["root", "crop_ratio", "random_resized_crop", "workers", "broken"];
            let without: Vec<String> =
                only.iter().filter(|other| **other != key).map(|key| format!("no {key}")).collect();
            refused(
                &format!("dataset = 'digits'\nval_images = 3\n{}", without.join("\n")),
                key,
                "only dataset = \"imagefolder\"",
            );
        }
    }
    refused("root = 'nowhere'", "root", "nowhere must be a folder with train/ and val/");
    refused("normalization = 'data'", "normalization", "every image");
    refused("channels = 3", "channels", "leave it out");
    refused("crop_ratio = 1.1", "crop_ratio", "at most 1");
    refused("image_size = 0", "image_size", "1 to 4096");
    refused("workers = 0", "workers", "1 to 1024");
    refused("broken = 'ignore'", "broken", "unknown value `ignore`");
    refused("random_resized_crop = 'off'", "random_resized_crop", "must be a table, or \"none\"");
    refused("random_resized_crop = { scale = [0.5, 0.2], ratio = [1, 1] }", "random_resized_crop.scale", "ascending");
    refused("random_resized_crop = { scale = [0.5, 1.0] }", "random_resized_crop.ratio", "missing");
    refused("random_resized_crop = { scales = [0.5, 1.0] }", "random_resized_crop.scales", "did you mean `scale`");
    let augment =
        |ops: &str| format!("rand_augment = {{ {ops}, magnitude_std = 0, probability = 0.5, increasing = true }}");
    refused(&augment("ops = 0, magnitude = 9"), "rand_augment.ops", "1 to 16");
    refused(&augment("ops = 2, magnitude = 11"), "rand_augment.magnitude", "0 to 10");
    let erase = |area: &str| {
        format!("random_erasing = {{ probability = 0.5, mode = 'const', area = {area}, min_aspect = 0.3 }}")
    };
    refused(&erase("[0.0, 0.3]"), "random_erasing.area", "above 0");
    refused("val_images = 12", "val_images", "12 images");
    refused("classes = [0, 3]", "classes", "below 3");
    assert!(parse(dir.path(), &augment("ops = 2, magnitude = 9")).is_ok(), "control");
}

#[test]
fn work_that_nobody_waits_for_is_given_up() {
    let dir = folder();
    let mut run = Run::new(dir.path(), "", 1);
    let _ = run.step(0);
    let first = run.splits.test.batches(1).next().unwrap().unwrap();
    assert_eq!(first.1.size(), [1]);
    drop(run); // joins the workers
}
