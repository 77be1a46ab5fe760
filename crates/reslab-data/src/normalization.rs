//! Mean and standard deviation per channel: what makes bytes into a network's input.

use reslab_fetch::decode::RawPart;
use tch::{Device, Kind, Tensor};

use crate::{DataError, NormalizationKind};

/// Mean and standard deviation of each channel, in units of a pixel's byte: those of the images that are trained on, or those that a family
/// of networks takes.
///
/// Those of the images are computed at loading from exact integer sums, so they are the same on every machine and for every seed; neither
/// validation nor test images enter. A channel that never varies gets a standard deviation of 1.
#[derive(Debug)]
pub struct Normalization {
    /// Mean of each channel, `[C]`.
    pub mean: Vec<f64>,
    /// Standard deviation of each channel, `[C]`.
    pub std: Vec<f64>,
    /// `mean`, f32 `[C, 1, 1]`, on the device.
    device_mean: Tensor,
    /// `1 / std`, f32 `[C, 1, 1]`, on the device.
    device_gain: Tensor,
}

impl Normalization {
    /// The figures of `part`, whose images have `channels` channels of `plane` pixels.
    pub(crate) fn of(part: &RawPart, channels: usize, plane: usize, device: Device) -> Result<Self, DataError> {
        let mut counts = vec![[0u64; 256]; channels];
        for (nth, pixels) in part.pixels.chunks_exact(plane).enumerate() {
            let count = &mut counts[nth % channels];
            for pixel in pixels {
                count[usize::from(*pixel)] += 1;
            }
        }
        let (mean, std) = counts.iter().map(moments).unzip();
        Self::new(mean, std, device)
    }

    /// The figures of a family of networks, for pixels whose white is the byte `white`.
    ///
    /// # Panics
    /// If `kind` is that of the data, which has to be looked at.
    pub(crate) fn fixed(kind: NormalizationKind, channels: i64, white: u8, device: Device) -> Result<Self, DataError> {
        let (mean, std) = kind.figures(channels).expect("figures that are known without the images");
        let bytes = |shares: Vec<f64>| shares.into_iter().map(|share| share * f64::from(white)).collect();
        Self::new(bytes(mean), bytes(std), device)
    }

    pub(crate) fn new(mean: Vec<f64>, std: Vec<f64>, device: Device) -> Result<Self, DataError> {
        let gains: Vec<f64> = std.iter().map(|std| 1.0 / std).collect();
        let upload = |values: &[f64]| {
            let host = Tensor::f_from_slice(values)?.f_to_kind(Kind::Float)?;
            host.f_view([values.len() as i64, 1, 1])?.f_to_device(device)
        };
        Ok(Self { device_mean: upload(&mean)?, device_gain: upload(&gains)?, mean, std })
    }

    /// images: u8 `[B, C, H, W]` -> f32 `[B, C, H, W]`, (images - mean) / std.
    ///
    /// # Errors
    /// When libtorch can't: above all, when memory is short.
    pub fn apply(&self, images: &Tensor) -> Result<Tensor, DataError> {
        let mut centred = images.f_sub(&self.device_mean)?; // u8 - f32 is f32: no kernel to convert
        Ok(centred.f_mul_(&self.device_gain)?)
    }

    pub(crate) fn device(&self) -> Device {
        self.device_mean.device()
    }

    pub(crate) fn shallow_clone(&self) -> Self {
        Self {
            mean: self.mean.clone(),
            std: self.std.clone(),
            device_mean: self.device_mean.shallow_clone(),
            device_gain: self.device_gain.shallow_clone(),
        }
    }
}

impl NormalizationKind {
    /// Mean and standard deviation of each channel, of a white of 1; none where the images have to be counted.
    pub(crate) fn figures(self, channels: i64) -> Option<(Vec<f64>, Vec<f64>)> {
        match self {
            Self::Data => None,
            Self::Imagenet => Some((vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225])),
            Self::Half => Some((vec![0.5; channels as usize], vec![0.5; channels as usize])),
        }
    }
}

/// Mean and standard deviation of bytes that occur so often.
fn moments(counts: &[u64; 256]) -> (f64, f64) {
    let number: u64 = counts.iter().sum();
    let sum = |power: u32| counts.iter().zip(0u64..).map(|(count, byte)| count * byte.pow(power)).sum::<u64>();
    let mean = sum(1) as f64 / number as f64;
    // number * sum(x^2) - sum(x)^2 is exact in integers: no cancellation, whatever the order.
    let spread = u128::from(number) * u128::from(sum(2)) - u128::from(sum(1)).pow(2);
    let std = (spread as f64).sqrt() / number as f64;
    if std > 0.0 { (mean, std) } else { (mean, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_std_are_those_of_each_channel() {
        // Two images of two channels of two pixels.
        let part = RawPart { pixels: vec![0, 2, 10, 10, 4, 6, 10, 10], labels: vec![0, 1] };
        let norm = Normalization::of(&part, 2, 2, Device::Cpu).expect("on the host");
        assert_eq!(norm.mean, [3.0, 10.0]);
        assert_eq!(norm.std, [5f64.sqrt(), 1.0], "a constant channel is left as wide as it is");
    }

    /// What transforms.ToTensor and Normalize make of a byte.
    #[test]
    fn fixed_figures_are_those_of_a_white_of_one() {
        let pixels = Tensor::from_slice(&[0u8, 128, 255]).view([1, 3, 1, 1]);
        let input = |kind| {
            let norm = Normalization::fixed(kind, 3, 255, Device::Cpu).expect("on the host");
            Vec::<f32>::try_from(norm.apply(&pixels).expect("on the host").view(-1)).expect("numbers")
        };
        let near = |found: Vec<f32>, expected: [f32; 3]| {
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5)
        };
        let half = 128.0 / 255.0;
        assert!(near(input(NormalizationKind::Half), [-1.0, (half - 0.5) / 0.5, 1.0]));
        let imagenet = [-0.485 / 0.229, (half - 0.456) / 0.224, (1.0 - 0.406) / 0.225];
        assert!(near(input(NormalizationKind::Imagenet), imagenet));
        assert!(!near(input(NormalizationKind::Half), imagenet), "negative control");
        let digits = Normalization::fixed(NormalizationKind::Half, 1, 16, Device::Cpu).expect("on the host");
        assert_eq!((digits.mean, digits.std), (vec![8.0], vec![8.0]));
    }

    #[test]
    fn the_input_has_mean_0_and_std_1_and_keeps_the_bytes_untouched() {
        let part = RawPart { pixels: (0..=255).collect(), labels: vec![0] };
        let norm = Normalization::of(&part, 1, 256, Device::Cpu).expect("on the host");
        let bytes = Tensor::from_slice(&part.pixels).view([1, 1, 16, 16]);
        let input = norm.apply(&bytes).expect("on the host");
        assert!(input.mean(Kind::Double).double_value(&[]).abs() < 1e-6);
        assert!((input.std(false).double_value(&[]) - 1.0).abs() < 1e-6);
        assert_eq!(bytes.int64_value(&[0, 0, 15, 15]), 255);
    }
}
