//! Element types of weights.

use half::{bf16, f16};

/// The element type of a weight. Integers and booleans are no weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

    /// As safetensors spells it.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "F16",
            Dtype::Bf16 => "BF16",
            Dtype::F32 => "F32",
            Dtype::F64 => "F64",
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        }
    }

    /// The type of a name in a header.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// The elements as single precision; a double is rounded.
    pub fn to_f32(self, bytes: &[u8]) -> Vec<f32> {
        let two = |chunk: &[u8]| [chunk[0], chunk[1]];
        match self {
            Dtype::F16 => bytes.chunks_exact(2).map(|c| f16::from_le_bytes(two(c)).to_f32()).collect(),
            Dtype::Bf16 => bytes.chunks_exact(2).map(|c| bf16::from_le_bytes(two(c)).to_f32()).collect(),
            Dtype::F32 => bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect(),
            Dtype::F64 => bytes
                .chunks_exact(8)
                .map(|c| f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]) as f32)
                .collect(),
        }
    }

    /// Numbers of single precision as elements of this type, rounded to the nearest.
    pub fn of_f32(self, values: &[f32]) -> Vec<u8> {
        match self {
            Dtype::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            Dtype::Bf16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
            Dtype::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Dtype::F64 => values.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_every_type_holds_come_back() {
        let values = [0.0, -1.5, 256.0, f32::INFINITY];
        for dtype in Dtype::ALL {
            let bytes = dtype.of_f32(&values);
            assert_eq!(bytes.len(), 4 * dtype.size());
            assert_eq!(dtype.to_f32(&bytes), values, "{dtype:?}");
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::from_name("I64"), None);
        assert_eq!(Dtype::Bf16.to_f32(&Dtype::Bf16.of_f32(&[0.1])), [0.100_097_656]);
    }
}
