//! Whole runs on a folder of images that the test makes.

mod support;

use std::fs;
use std::path::Path;

use reslab_record::{Outcome, Progress};
use reslab_residual::Registry;
use reslab_train::{Ended, RunConfig, probe};
use support::{job, run_until};

/// Two classes, 24 training and 8 test images each, of one colour per class and some grain; `broken` of the first class can't be read.
fn folder(broken: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (class, colour) in [("dark", 40u8), ("light", 170)] {
        for (part, images) in [("train", 24), ("val", 8)] {
            let folder = dir.path().join(part).join(class);
            fs::create_dir_all(&folder).unwrap();
            for image in 0..images {
                let path = folder.join(format!("{image:02}.png"));
                let (width, height) = (20 + image, 24);
                let mut encoder = png::Encoder::new(fs::File::create(&path).unwrap(), width, height);
                encoder.set_color(png::ColorType::Rgb);
                let pixels: Vec<u8> =
                    (0..3 * width * height).map(|at| colour + (at * at + image * 31) as u8 % 60).collect();
                encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
                if class == "dark" && (image as usize) < broken {
                    fs::write(&path, "no image").unwrap();
                }
            }
        }
    }
    dir
}

fn table(root: &Path, workers: u32, broken: &str) -> toml::Table {
    let text = format!(
        r#"
data = {{ dataset = "imagefolder", root = "{}", train_images = "all", val_images = 8, image_size = 16, crop_ratio = 0.875, workers = {workers}, broken = "{broken}",
          random_resized_crop = {{ scale = [0.3, 1.0], ratio = [0.75, 1.3333] }}, crop_pad = 0, flip = true, mixup = 0.2, cutmix = 1.0, normalization = "imagenet",
          rand_augment = {{ ops = 1, magnitude = 5, magnitude_std = 0.5, probability = 0.5, increasing = true }},
          random_erasing = {{ probability = 0.25, mode = "pixel", area = [0.02, 0.3333], min_aspect = 0.3 }} }}
model = {{ kind = "vit", depth = 2, width = 16, num_heads = 2, patch_size = 8, mlp_ratio = 2.0, qkv_bias = true, pool = "mean", norm = "pre", norm_eps = 1e-6 }}
train = {{ steps = 20, batch = 16, accumulate = 2, clip = 1.0, label_smoothing = 0.0, precision = "fp32", eval_every = 6, telemetry_every = 3, checkpoint_every = 5,
           ema_decay = 0.0, report = "last", deterministic = false }}
optim = {{ kind = "adamw", lr = 1e-2, betas = [0.9, 0.999], eps = 1e-8, weight_decay = 0.05, warmup_steps = 2, schedule = "cosine" }}
residual = {{ kind = "layer_scale", init = 0.1 }}
"#,
        root.display()
    );
    let mut table = text.parse().unwrap();
    RunConfig::from_table(&table, &Registry::builtin()).unwrap().pin(&mut table);
    table
}

fn read(dir: &Path, file: &str) -> Vec<u8> {
    fs::read(dir.join(file)).unwrap()
}

const SAME: [&str; 5] = ["evals.csv", "probes.csv", "layers.csv", "done.json", "checkpoint.safetensors"];

#[test]
fn a_run_learns_and_has_the_same_bytes_with_other_workers_and_after_a_stop() {
    let images = folder(3);
    let [one, four, parts] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let with = |workers| table(images.path(), workers, "skip");
    assert_eq!(run_until(&with(1), one.path(), None).unwrap(), Ended::Done(Outcome::Finished));
    assert_eq!(run_until(&with(4), four.path(), None).unwrap(), Ended::Done(Outcome::Finished));
    assert_eq!(run_until(&with(4), parts.path(), Some(8)).unwrap(), Ended::Interrupted { step: 9 });
    assert_eq!(run_until(&with(2), parts.path(), None).unwrap(), Ended::Done(Outcome::Finished));
    for file in SAME {
        assert_eq!(read(one.path(), file), read(four.path(), file), "four workers: {file}");
        assert_eq!(read(one.path(), file), read(parts.path(), file), "stopped: {file}");
    }
    let evals = String::from_utf8(read(one.path(), "evals.csv")).unwrap();
    let last: Vec<&str> = evals.lines().last().unwrap().split(',').collect();
    let top1: f64 =
        last[evals.lines().next().unwrap().split(',').position(|name| name == "top1").unwrap()].parse().unwrap();
    assert!(top1 > 0.9, "dark and light are told apart: {evals}");
    assert!(last.contains(&"13"), "3 of 16 test images can't be read: {last:?}");
    let log = String::from_utf8(read(one.path(), "log.txt")).unwrap();
    assert!(log.contains("2 classes, 48 images in train/, 16 in val/"), "{log}");
    for image in ["train/dark/00.png", "train/dark/02.png", "val/dark/01.png"] {
        assert_eq!(log.matches(image).count(), 1, "{log}");
    }
}

#[test]
fn a_broken_image_ends_the_run_with_its_name_where_that_is_asked_for() {
    let (images, dir) = (folder(20), tempfile::tempdir().unwrap());
    let error = run_until(&table(images.path(), 2, "fail"), dir.path(), None).unwrap_err().to_string();
    assert!(error.contains("train/dark/") && error.contains("no JPEG, PNG or WebP"), "{error}");
}

#[test]
fn a_run_is_of_the_listing_that_was_planned_and_can_be_timed() {
    let (images, dir) = (folder(0), tempfile::tempdir().unwrap());
    let table = table(images.path(), 2, "skip");
    let config = RunConfig::from_table(&table, &Registry::builtin()).unwrap();
    assert_eq!(config.facts().unwrap().train_images, 20 * 16);
    assert!(matches!(probe(&job(&config, &table, dir.path()), 2).unwrap(), Progress::Probe { .. }));
    assert_eq!(table["data"]["root_sha256"].as_str().map(str::len), Some(64));
    fs::remove_file(images.path().join("train/dark/00.png")).unwrap();
    let errors = RunConfig::from_table(&table, &Registry::builtin()).unwrap_err();
    assert_eq!(errors[0].key, "data.root_sha256");
}
