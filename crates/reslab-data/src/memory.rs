//! Data sets that are held in memory: which of their images, and what is done to them once, when they are loaded.

use reslab_fetch::decode::{DataShape, RawPart, RawSet};
use reslab_image::resize_plane;
use tch::Device;

use crate::select::select;
use crate::{DataConfig, DataError, Dataset, Normalization, NormalizationKind, Split, Splits};

/// Keeps the classes of `config`, cuts validation from the training part, and gives images the size and channels asked for.
pub(crate) fn build(config: &DataConfig, set: &Dataset, raw: RawSet, device: Device) -> Result<Splits, DataError> {
    let (shape, counts) = (config.shape()?, config.counts()?);
    let (train_part, test) = match &config.classes {
        Some(classes) => (keep(&raw.train, classes, &set.shape), keep(&raw.test, classes, &set.shape)),
        None => (raw.train, raw.test),
    };
    let labels: Vec<u16> = train_part.labels.iter().copied().map(u16::from).collect();
    let chosen = select(&labels, counts.train, counts.val);
    let split = |part: RawPart| Dressed::of(part, &set.shape, &shape);
    let train = split(pick(&train_part, &chosen.train, set.shape.image_bytes()));
    let val = split(pick(&train_part, &chosen.val, set.shape.image_bytes()));
    let test = split(test);
    let norm = match config.normalization {
        None | Some(NormalizationKind::Data) => {
            Normalization::of(&train.0, shape.channels as usize, (shape.height * shape.width) as usize, device)?
        }
        Some(kind) => Normalization::fixed(kind, shape.channels, set.white, device)?,
    };
    let upload = |Dressed(part): Dressed| Split::upload(&part.pixels, &part.labels, &shape, device);
    Ok(Splits { norm, train: upload(train)?, val: upload(val)?, test: upload(test)?, shape, notices: Vec::new() })
}

/// These images of `part`, in this order.
fn pick(part: &RawPart, images: &[usize], image_bytes: usize) -> RawPart {
    let mut picked = RawPart::default();
    for image in images {
        picked.pixels.extend_from_slice(&part.pixels[image * image_bytes..][..image_bytes]);
        picked.labels.push(part.labels[*image]);
    }
    picked
}

/// The images of these classes, in the part's order, their labels counted along the list.
fn keep(part: &RawPart, classes: &[u16], shape: &DataShape) -> RawPart {
    let place = |label: &u8| classes.iter().position(|class| *class == u16::from(*label));
    let images: Vec<usize> = (0..part.labels.len()).filter(|image| place(&part.labels[*image]).is_some()).collect();
    let mut kept = pick(part, &images, shape.image_bytes());
    for label in &mut kept.labels {
        *label = place(label).expect("an image of these classes") as u8;
    }
    kept
}

/// Images of the size and channels that the network reads.
struct Dressed(RawPart);

impl Dressed {
    fn of(mut part: RawPart, own: &DataShape, wanted: &DataShape) -> Self {
        if (own.height, own.width) != (wanted.height, wanted.width) {
            let side = |shape: &DataShape| (shape.width as u32, shape.height as u32);
            let planes = part.pixels.chunks_exact((own.height * own.width) as usize);
            part.pixels = planes.flat_map(|plane| resize_plane(plane, side(own), side(wanted))).collect();
        }
        if own.channels != wanted.channels {
            let times = (wanted.channels / own.channels) as usize;
            let planes = part.pixels.chunks_exact((wanted.height * wanted.width) as usize);
            part.pixels = planes.flat_map(|plane| plane.repeat(times)).collect();
        }
        Self(part)
    }
}
