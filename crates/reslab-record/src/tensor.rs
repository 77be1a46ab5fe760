//! A tensor without libtorch: a name, a type, a shape and bytes.

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 64-bit integer.
    I64,
    /// Byte.
    U8,
}

impl Dtype {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::U8 => 1,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::I64 => "I64",
            Self::U8 => "U8",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::F32, Self::F64, Self::I64, Self::U8].into_iter().find(|dtype| dtype.name() == name)
    }
}

/// A tensor as bytes, little-endian, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTensor {
    /// Its full name: `model/blocks.07.mlp.fc1.weight`.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape; empty for one number.
    pub shape: Vec<usize>,
    /// The elements.
    pub bytes: Vec<u8>,
}
