//! Why a run could not be computed. Divergence is no error.

use reslab_config::ConfigError;
use reslab_data::DataError;
use reslab_model::{LoadError, ModelError};
use reslab_pretrained::PretrainedError;
use reslab_record::{FailureClass, RecordError, says_out_of_memory};
use reslab_torch::OptimError;

/// Why a run could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The data set can't be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network can't be built or calibrated.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A value that only the data or the device shows to be wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A pretrained file can't be read.
    #[error(transparent)]
    Pretrained(#[from] PretrainedError),
    /// A pretrained file does not fit the network.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A gamma of a pretrained file has no projection that it could be folded into.
    #[error("finetune.gamma: `{0}` stands behind no projection, so it can't be folded")]
    Fold(String),
    /// The optimizer's work was refused.
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// A record can't be written or read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// libtorch refused.
    #[error("libtorch: {0}")]
    Torch(#[from] reslab_torch::tch::TchError),
    /// A checkpoint is whole, but of another network.
    #[error("the checkpoint does not fit this run: {0}; remove the run's folder to start it anew")]
    Checkpoint(String),
    /// The optimizer's groups don't cover the network.
    #[error("{grouped} tensors stand in optimizer groups, but the network has {parameters} trainable ones")]
    Groups {
        /// Tensors in groups, counted once per group.
        grouped: usize,
        /// Trainable tensors.
        parameters: usize,
    },
}

impl TrainError {
    /// The class under which the failure is recorded. libtorch tells a lack of memory in its text alone.
    pub fn class(&self) -> FailureClass {
        match self {
            _ if says_out_of_memory(&self.to_string()) => FailureClass::OutOfMemory,
            Self::Data(_) | Self::Record(_) => FailureClass::Io,
            _ => FailureClass::Bug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_is_told_from_other_failures_on_every_device() {
        let class = |text: &str| TrainError::Torch(reslab_torch::tch::TchError::Torch(text.to_owned())).class();
        assert_eq!(class("CUDA out of memory. Tried to allocate 2 GiB"), FailureClass::OutOfMemory);
        assert_eq!(class("DefaultCPUAllocator: can't allocate memory: you tried"), FailureClass::OutOfMemory);
        assert_eq!(class("shape '[2]' is invalid"), FailureClass::Bug);
    }

    #[test]
    fn libtorchs_own_words_for_a_lack_of_memory_are_known() {
        use reslab_torch::tch::{Device, Kind, Tensor};
        let class =
            |shape: i64| TrainError::Torch(Tensor::f_zeros([shape], (Kind::Double, Device::Cpu)).unwrap_err()).class();
        assert_eq!(class(1 << 45), FailureClass::OutOfMemory);
        assert_eq!(class(-1), FailureClass::Bug);
    }
}
