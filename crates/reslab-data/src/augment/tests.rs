//! Batches against a reference that goes pixel by pixel, on images that are not square and have three channels.

use super::draws::{Mix, cut};
use super::*;

const SHAPE: DataShape = DataShape { channels: 3, height: 5, width: 7, classes: 4, train_images: 40, test_images: 0 };
const BATCH: usize = 16;
const SEED: u64 = 3;

fn config(crop_pad: u32, flip: bool, mixup: f64, cutmix: f64) -> DataConfig {
    with(crop_pad, flip, [mixup, cutmix], "")
}

fn with(crop_pad: u32, flip: bool, [mixup, cutmix]: [f64; 2], more: &str) -> DataConfig {
    let text = format!(
        "dataset = 'digits'\ntrain_images = 'all'\nval_images = 0\ncrop_pad = {crop_pad}\nflip = {flip}\n\
         mixup = {mixup:?}\ncutmix = {cutmix:?}\n{more}"
    );
    DataConfig::parse(&text.parse().expect("a table")).expect("a valid config")
}

/// 40 images of random bytes, so that a wrong index shows.
fn split() -> Split {
    let mut bytes = reslab_torch::stream(1, "test", &[]);
    let pixels: Vec<u8> = (0..40 * 3 * 5 * 7).map(|_| bytes.below(256) as u8).collect();
    let images = Tensor::from_slice(&pixels).view([40, 3, 5, 7]);
    Split::of(images, Tensor::arange(40, (Kind::Int64, Device::Cpu)).remainder(4))
}

/// Its images, u8 `[40, C, H, W]`.
fn bytes() -> Tensor {
    split().batches(40).next().expect("a batch").expect("in memory").0
}

fn norm() -> Normalization {
    Normalization::new(vec![100.0, 120.0, 140.0], vec![50.0, 60.0, 70.0], Device::Cpu).expect("on the host")
}

fn augment(config: &DataConfig, seed: u64) -> Augment {
    Augment::new(config, seed, SHAPE, &norm()).expect("on the host")
}

/// Image 39 - 2b is sample b.
fn indices() -> Vec<i64> {
    (0..BATCH as i64).map(|sample| 39 - 2 * sample).collect()
}

fn train(config: &DataConfig, seed: u64, step: u64) -> Batch {
    augment(config, seed).batch(&split(), &indices(), step).expect("a batch")
}

fn values(tensor: &Tensor) -> Vec<f64> {
    Vec::<f64>::try_from(tensor.to_kind(Kind::Double).contiguous().view(-1)).expect("numbers")
}

fn distance(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(l, r)| (l - r).abs()).fold(0.0, f64::max)
}

fn dealt(config: &DataConfig, step: u64) -> Draws {
    Draws::of(config, &SHAPE, (SEED, step), BATCH)
}

/// Crop, mirror and normalisation, pixel by pixel. f64 `[B, C, H, W]`.
fn placed(config: &DataConfig, draws: &Draws) -> Vec<f64> {
    let (bytes, pad) = (bytes(), i64::from(config.crop_pad));
    let mut out = Vec::new();
    for (sample, image) in indices().into_iter().enumerate() {
        let (row_offset, column_offset) = draws.offsets.as_ref().map_or((0, 0), |o| (o[sample], o[BATCH + sample]));
        let is_flipped = draws.flips.as_ref().is_some_and(|flips| flips[sample] == 1);
        for (channel, row, column) in pixels() {
            let cut = if is_flipped { SHAPE.width - 1 - column } else { column };
            let (y, x) = (row + row_offset - pad, cut + column_offset - pad);
            let is_inside = (0..SHAPE.height).contains(&y) && (0..SHAPE.width).contains(&x);
            let byte = if is_inside { bytes.int64_value(&[image, channel, y, x]) } else { 0 };
            let norm = norm();
            out.push((byte as f64 - norm.mean[channel as usize]) / norm.std[channel as usize]);
        }
    }
    out
}

fn pixels() -> impl Iterator<Item = (i64, i64, i64)> {
    (0..3).flat_map(|channel| (0..5).flat_map(move |row| (0..7).map(move |column| (channel, row, column))))
}

/// The mixed images and targets, pixel by pixel.
fn mixed(plain: &[f64], mix: &Mix) -> (Vec<f64>, Vec<f64>) {
    let image_size = plain.len() / BATCH;
    let [top, bottom, left, right] = mix.region;
    let (mut images, mut targets) = (Vec::new(), vec![0.0; BATCH * 4]);
    for sample in 0..BATCH {
        let partner = mix.partners[sample] as usize;
        for (nth, (_, row, column)) in pixels().enumerate() {
            let is_inside = row >= top && row < bottom && column >= left && column < right;
            let weight = if is_inside { mix.inside } else { mix.outside };
            images.push(weight * plain[sample * image_size + nth] + (1.0 - weight) * plain[partner * image_size + nth]);
        }
        let label = |sample: usize| indices()[sample] as usize % 4;
        targets[sample * 4 + label(sample)] += mix.share;
        targets[sample * 4 + label(partner)] += 1.0 - mix.share;
    }
    (images, targets)
}

fn soft(batch: &Batch) -> Vec<f64> {
    match &batch.targets {
        Targets::Soft(shares) => values(shares),
        Targets::Hard(_) => panic!("mixed batches have soft targets"),
    }
}

#[test]
fn with_everything_off_a_batch_is_gathered_and_normalised() {
    let config = config(0, false, 0.0, 0.0);
    let augment = augment(&config, SEED);
    let batch = augment.batch(&split(), &indices(), 5).expect("a batch");
    let bytes = bytes().index_select(0, &Tensor::from_slice(&indices()));
    assert_eq!(batch.images, augment.eval(&bytes).expect("an input"));
    assert_eq!(batch.images.size(), [16, 3, 5, 7]);
    assert!(distance(&values(&batch.images), &placed(&config, &dealt(&config, 5))) < 1e-5);
    let Targets::Hard(labels) = &batch.targets else { panic!("labels stay hard") };
    assert_eq!(values(labels), indices().iter().map(|image| (image % 4) as f64).collect::<Vec<_>>());
}

/// A byte is at least 1/70 in the input, so 1e-5 tells any two bytes apart.
#[test]
fn crop_and_mirror_are_those_of_a_pixel_by_pixel_reference() {
    for config in [config(2, false, 0.0, 0.0), config(0, true, 0.0, 0.0), config(4, true, 0.0, 0.0)] {
        for step in 0..4 {
            let found = values(&train(&config, SEED, step).images);
            let draws = dealt(&config, step);
            assert!(distance(&found, &placed(&config, &draws)) < 1e-5, "{config:?}, step {step}");
            // Negative controls: another step's numbers, no mirroring, no offsets.
            assert!(distance(&found, &placed(&config, &dealt(&config, step + 1))) > 1.0);
            let still = Draws { flips: draws.flips.as_ref().map(|_| vec![0; BATCH]), ..draws.clone() };
            assert_eq!(distance(&found, &placed(&config, &still)) > 1.0, config.flip);
            let centre = vec![i64::from(config.crop_pad); 2 * BATCH];
            let centred = Draws { offsets: Some(centre), ..draws };
            assert_eq!(distance(&found, &placed(&config, &centred)) > 1.0, config.crop_pad > 0);
        }
    }
}

#[test]
fn mixup_blends_images_and_labels_in_the_same_shares() {
    let config = config(1, true, 0.8, 0.0);
    for step in 0..4 {
        let (batch, draws) = (train(&config, SEED, step), dealt(&config, step));
        let mix = draws.mix.clone().expect("mixup is on");
        assert!(mix.share == mix.inside && mix.share == mix.outside && mix.share > 0.0 && mix.share < 1.0);
        let (images, targets) = mixed(&placed(&config, &draws), &mix);
        assert!(distance(&values(&batch.images), &images) < 1e-5);
        assert!(distance(&soft(&batch), &targets) < 1e-6);
        // Negative control: shares the other way round.
        let (inside, outside, share) = (1.0 - mix.inside, 1.0 - mix.outside, 1.0 - mix.share);
        let (images, targets) = mixed(&placed(&config, &draws), &Mix { inside, outside, share, ..mix });
        assert!(distance(&values(&batch.images), &images) > 1e-2 && distance(&soft(&batch), &targets) > 1e-3);
    }
}

#[test]
fn cutmix_takes_a_box_from_the_partner_and_its_labels_by_area() {
    let config = config(0, false, 0.0, 1.0);
    let (mut boxes, steps) = (0, 20);
    for step in 0..steps {
        let (batch, draws) = (train(&config, SEED, step), dealt(&config, step));
        let mix = draws.mix.clone().expect("cutmix is on");
        assert_eq!((mix.inside, mix.outside), (0.0, 1.0), "the partner is in the box");
        let plain = placed(&config, &draws);
        let (images, targets) = mixed(&plain, &mix);
        assert!(distance(&values(&batch.images), &images) < 1e-5);
        assert!(distance(&soft(&batch), &targets) < 1e-6);
        // The share is the part of the pixels that stayed.
        let [top, bottom, left, right] = mix.region;
        assert!((mix.share - (1.0 - ((bottom - top) * (right - left)) as f64 / 35.0)).abs() < 1e-12);
        boxes += u64::from(mix.share < 1.0 && mix.share > 0.0 && distance(&values(&batch.images), &plain) > 1.0);
    }
    assert!(boxes > steps / 2, "{boxes} of {steps} steps cut a box");
}

/// `timm.data.mixup.rand_bbox((1, 1, H, W), lam)` of timm 1.0 with `np.random.randint` replaced by the given centre.
#[test]
fn boxes_are_those_of_timm() {
    let expected = [
        ((5, 7), 0.3, (2, 3), [0, 4, 1, 6]),
        ((5, 7), 0.3, (0, 6), [0, 2, 4, 7]),
        ((28, 28), 0.5, (14, 14), [5, 24, 5, 24]),
        ((28, 28), 0.95, (27, 0), [24, 28, 0, 3]),
        ((32, 32), 0.0, (16, 16), [0, 32, 0, 32]),
        ((32, 32), 1.0, (5, 5), [5, 5, 5, 5]),
    ];
    for ((height, width), lam, centre, region) in expected {
        assert_eq!(cut(&DataShape { height, width, ..SHAPE }, lam, centre), region);
    }
}

#[test]
fn soft_targets_sum_to_one() {
    for step in 0..20 {
        let targets = soft(&train(&config(0, false, 0.4, 1.0), SEED, step));
        for row in targets.chunks(4) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6 && row.iter().all(|share| *share >= 0.0), "{row:?}");
        }
    }
}

/// 2,000 steps of 16 samples: 4 standard errors, sqrt(p (1 - p) / n).
#[test]
fn offsets_mirrors_and_the_choice_of_two_mixes_are_uniform() {
    let config = config(2, true, 0.8, 0.8);
    let (steps, mut mirrored, mut boxes, mut lam) = (2_000, 0, 0, 0.0);
    let mut offsets = [[0u32; 5]; 2];
    for step in 0..steps {
        let draws = dealt(&config, step);
        for (nth, offset) in draws.offsets.iter().flatten().enumerate() {
            offsets[nth / BATCH][*offset as usize] += 1;
        }
        mirrored += draws.flips.iter().flatten().sum::<i64>();
        let mix = draws.mix.expect("both are on");
        boxes += u32::from(mix.outside == 1.0);
        lam += if mix.outside == 1.0 { 0.5 } else { mix.share };
    }
    let near = |count: f64, n: f64, p: f64| (count / n - p).abs() < 4.0 * (p * (1.0 - p) / n).sqrt();
    let samples = (steps * BATCH as u64) as f64;
    assert!(offsets.iter().flatten().all(|count| near(f64::from(*count), samples, 0.2)), "{offsets:?}");
    assert!(near(mirrored as f64, samples, 0.5), "{mirrored}");
    assert!(near(f64::from(boxes), steps as f64, 0.5), "{boxes}");
    // Beta(.8, .8): variance 1 / (4 * (2 * .8 + 1)), in the half of the steps that are mixup.
    assert!((lam / steps as f64 - 0.5).abs() < 4.0 * (0.5 / 10.4 / steps as f64).sqrt(), "{lam}");
    assert!(!near(mirrored as f64 + 0.03 * samples, samples, 0.5), "negative control: 3 % more would be seen");
}

#[test]
fn a_batch_is_a_function_of_seed_and_step_alone() {
    let config = config(2, true, 0.8, 0.8);
    let long_lived = augment(&config, SEED);
    let later: Vec<Batch> = (0..3).map(|step| long_lived.batch(&split(), &indices(), step).expect("a batch")).collect();
    assert_eq!(train(&config, SEED, 2).images, later[2].images, "without the steps before");
    assert_ne!(train(&config, SEED + 1, 2).images, later[2].images);
    assert_ne!(later[1].images, later[2].images);
    // Turning one kind on changes no draw of another.
    assert_eq!(dealt(&config, 2).offsets, dealt(&self::config(2, false, 0.0, 0.0), 2).offsets);
}

#[test]
fn micro_batches_are_parts_of_the_logical_batch() {
    let batch = train(&config(2, true, 0.8, 0.8), SEED, 0);
    let parts: Vec<Batch> = (0..4).map(|nth| batch.narrow(4 * nth, 4)).collect();
    let images: Vec<f64> = parts.iter().flat_map(|part| values(&part.images)).collect();
    assert_eq!(images, values(&batch.images));
    assert_eq!(parts.iter().flat_map(soft).collect::<Vec<_>>(), soft(&batch));
}

#[test]
fn an_image_that_is_not_there_is_an_error() {
    let augment = augment(&config(0, false, 0.0, 0.0), SEED);
    for wrong in [40, -1] {
        let error = augment.batch(&split(), &[0, wrong], 0).expect_err("no such image").to_string();
        assert_eq!(error, format!("image {wrong} was asked of a split of 40 images"));
    }
}

/// Erasing with probability .6, in a mode.
fn erasing(mode: &str) -> DataConfig {
    let table = format!(
        "random_erasing = {{ probability = 0.6, mode = '{mode}', area = [0.02, 0.3333333333333333], min_aspect = 0.3 }}"
    );
    with(2, true, [0.0, 0.0], &table)
}

/// Values of a batch, and of the same one of which nothing was erased.
fn erased(mode: &str, step: u64) -> (Vec<f64>, Vec<f64>, Draws) {
    let found = values(&train(&erasing(mode), SEED, step).images);
    (found, values(&train(&config(2, true, 0.0, 0.0), SEED, step).images), dealt(&erasing(mode), step))
}

#[test]
fn a_box_is_erased_after_normalisation_and_nothing_around_it() {
    for mode in ["const", "pixel"] {
        let (mut inside, mut noise) = (0, Vec::new());
        for step in 0..8 {
            let (found, plain, draws) = erased(mode, step);
            let holes = draws.holes.expect("erasing is on");
            for (sample, hole) in holes.iter().enumerate() {
                for (nth, (_, row, column)) in pixels().enumerate() {
                    let at = sample * 3 * 5 * 7 + nth;
                    let is_inside = hole.is_some_and(|hole| {
                        (hole.top..hole.top + hole.height).contains(&row)
                            && (hole.left..hole.left + hole.width).contains(&column)
                    });
                    match (is_inside, mode) {
                        (false, _) => assert_eq!(found[at], plain[at], "step {step}, sample {sample}"),
                        (true, "const") => assert_eq!(found[at], 0.0),
                        (true, _) => noise.push(found[at]),
                    }
                    inside += u32::from(is_inside);
                }
            }
        }
        assert!(inside > 1_000, "{inside} values");
        if mode == "pixel" {
            let n = noise.len() as f64;
            let (mean, square) = (noise.iter().sum::<f64>() / n, noise.iter().map(|x| x * x).sum::<f64>() / n);
            assert!(mean.abs() < 4.0 / n.sqrt() && (square - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "{mean} {square}");
            noise.sort_unstable_by(f64::total_cmp);
            noise.dedup();
            assert!(noise.len() as f64 > 0.99 * n, "each pixel has its own");
        }
    }
    // Negative control: another seed erases elsewhere.
    assert_ne!(train(&erasing("const"), SEED + 1, 0).images, train(&erasing("const"), SEED, 0).images);
}

/// `timm.data.random_erasing.RandomErasing` (timm 1.0.31, min_area .02, max_area 1/3, min_aspect .3) with its uniform numbers replaced by
/// the given ones.
#[test]
fn erased_boxes_have_the_sides_of_timm() {
    let config = erasing("const");
    let erasing = config.random_erasing.as_ref().and_then(crate::Switch::on).expect("on");
    let expected = [
        ((32, 32), [0.5, 0.5], (13, 13)),
        ((32, 32), [0.9, 0.95], (30, 10)),
        ((20, 30), [0.0, 0.1], (2, 6)),
        ((224, 224), [0.7, 0.2], (76, 157)),
        ((8, 8), [0.2, 0.3], (2, 3)),
    ];
    for ((height, width), uniforms, sides) in expected {
        assert_eq!(erasing.sides(&DataShape { height, width, ..SHAPE }, uniforms), sides);
    }
}

/// 1,000 steps of 16 samples; a box is at least 1 pixel of 35 and not as high or wide as the image.
#[test]
fn as_many_boxes_are_erased_as_asked_and_all_fit() {
    let holes: Vec<_> = (0..1_000).flat_map(|step| dealt(&erasing("const"), step).holes.expect("on")).collect();
    let n = holes.len() as f64;
    let found: Vec<_> = holes.into_iter().flatten().collect();
    let share = found.len() as f64 / n;
    assert!((share - 0.6).abs() < 4.0 * (0.24 / n).sqrt() && (share - 0.63).abs() > 4.0 * (0.24 / n).sqrt(), "{share}");
    assert!(found.iter().all(|hole| hole.top + hole.height <= 5 && hole.left + hole.width <= 7));
    assert!(found.iter().all(|hole| hole.height < 5 && hole.width < 7));
    assert!((0..=3).all(|top| found.iter().any(|hole| hole.top == top)));
}
