//! A folder of images, from the outside: planned, run, and refused when it is another one.

mod support;

use std::path::Path;

use support::Place;

/// A place whose sweep `photos.toml` is on the folder `photos/` of two classes.
fn place() -> Place {
    let place = Place::new();
    let text = std::fs::read_to_string(place.at("tiny.toml")).expect("readable");
    let keys = "dataset = \"imagefolder\"\nroot = \"photos\"\nimage_size = 16\ncrop_ratio = 0.875\nrandom_resized_crop = \"none\"\n\
                workers = 2\nbroken = \"skip\"\nnormalization = \"half\"";
    let text = text.replace("dataset      = \"digits\"", keys).replace("\"tiny\"", "\"photos\"");
    let text =
        text.replace("train_images = 256", "train_images = \"all\"").replace("val_images   = 100", "val_images = 4");
    let text = text.replace("batch            = 32", "batch = 8").replace("steps            = 40", "steps = 10");
    std::fs::write(place.at("photos.toml"), text).expect("writable");
    for class in ["dark", "light"] {
        for (part, images) in [("train", 10), ("val", 4)] {
            for image in 0..images {
                let colour = if class == "dark" { 20 + image } else { 200 + image };
                write(&place.at(format!("photos/{part}/{class}/{image}.png")), colour);
            }
        }
    }
    place
}

fn write(path: &Path, colour: u8) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
    let mut encoder = png::Encoder::new(std::fs::File::create(path).expect("writable"), 20, 24);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(&[colour; 3 * 20 * 24])).expect("writable");
}

#[test]
fn a_sweep_on_a_folder_is_planned_run_and_reported() {
    let place = place();
    std::fs::write(place.at("photos/train/dark/3.png"), "no image").expect("writable");
    place.call(&["sweep", "photos.toml", "--seeds", "0"]).expect(0);
    let plan = std::fs::read_to_string(place.at("results/photos/plan.toml")).expect("written");
    assert!(plan.contains("root_sha256 = \""), "{plan}");
    let run = place.run_dir("results/photos", "plain-s0");
    let log = std::fs::read_to_string(run.join("log.txt")).expect("written");
    assert!(log.contains("photos: 2 classes, 20 images in train/, 8 in val/"), "{log}");
    assert!(log.contains("photos/train/dark/3.png: it is no JPEG, PNG or WebP"), "{log}");
    let again = place.call(&["sweep", "photos.toml", "--seeds", "0"]).expect(0);
    assert!(place.run_dir("results/photos", "plain-s0") == run, "the same run: {}", again.err);
}

#[test]
fn a_folder_that_changes_is_another_run_and_one_that_is_not_there_is_refused() {
    let place = place();
    let call = ["run", "photos.toml", "--arm", "plain", "--seed", "0"];
    place.call(&call).expect(0);
    assert!(place.call(&call).expect(0).err.contains("is done; nothing was started"));
    write(&place.at("photos/train/dark/more.png"), 7);
    assert!(!place.call(&call).expect(0).err.contains("nothing was started"));
    let runs = std::fs::read_dir(place.at("results/photos/runs")).expect("readable").count();
    assert_eq!(runs, 2, "the run of the larger folder stands beside the first");
    let called = place.call(&["plan", "photos.toml", "--set", "data.root=\"nowhere\""]).expect(2);
    for part in ["data.root", "nowhere must be a folder with train/ and val/", "it does not exist"] {
        assert!(called.err.contains(part), "no {part:?} in:\n{}", called.err);
    }
    let empty = place.call(&["plan", "photos.toml", "--set", "data.root=\"results\""]).expect(2);
    assert!(empty.err.contains("it has no folder train/"), "{}", empty.err);
}
