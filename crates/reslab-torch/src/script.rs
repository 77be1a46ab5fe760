//! Modules from PyTorch (TorchScript): `forward(residual, branch_output) -> update`.

use tch::{Device, Kind, Tensor, with_grad};

use crate::ffi;

/// Why a module can't be used, in libtorch's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScriptError(pub String);

/// A module of TorchScript. Loading one runs code of its file: load only what you trust.
#[derive(Debug)]
pub struct Script {
    module: ffi::OwnedModule,
}

impl Script {
    /// The module that `torch.jit.save` wrote as these bytes, its tensors on `device`.
    ///
    /// # Errors
    /// When it is no such module, or its `forward` does not take two tensors and give one.
    pub fn load(bytes: &[u8], device: Device) -> Result<Script, ScriptError> {
        let device = match device {
            Device::Cuda(index) => index as i32,
            _ => -1,
        };
        Ok(Script { module: ffi::script_load(bytes, device).map_err(shortened)? })
    }

    /// Its parameters with their dotted names, in its order. Storage and gradient are shared with the module.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn parameters(&self) -> Result<Vec<(String, Tensor)>, ScriptError> {
        ffi::script_tensors(&self.module, false).map_err(shortened)
    }

    /// Its tensors that are not parameters: TorchScript makes no difference between buffers and other attributes.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn buffers(&self) -> Result<Vec<(String, Tensor)>, ScriptError> {
        ffi::script_tensors(&self.module, true).map_err(shortened)
    }

    /// One call, recorded for autograd. It is interpreted as it was written, without the fused kernels that TorchScript
    /// would come to after some calls: equal inputs give equal bits at every call.
    ///
    /// # Errors
    /// What the module raises.
    pub fn call(&self, residual: &Tensor, branch_output: &Tensor, training: bool) -> Result<Tensor, ScriptError> {
        ffi::script_call(&self.module, residual, branch_output, training).map_err(shortened)
    }

    /// Whether all that it holds can be trained and saved.
    ///
    /// # Errors
    /// A buffer, or a parameter that is not float32 or requires no gradient.
    pub fn check_tensors(&self) -> Result<(), ScriptError> {
        if let Some((name, _)) = self.buffers()?.first() {
            let problem = "which no checkpoint would hold; make it a parameter or a plain number";
            return Err(ScriptError(format!("it has the buffer `{name}`, {problem}")));
        }
        for (name, tensor) in self.parameters()? {
            if tensor.kind() != Kind::Float {
                return Err(ScriptError(format!("its parameter `{name}` is {:?}, but must be float32", tensor.kind())));
            }
            if !tensor.requires_grad() {
                let problem = "requires no gradient; let it train, or make it a plain number";
                return Err(ScriptError(format!("its parameter `{name}` {problem}")));
            }
        }
        Ok(())
    }

    /// Tries it on small tensors of a network's width on the CPU. Its parameters have gradients afterwards.
    ///
    /// # Errors
    /// When it fails, gives another shape, type or device than the residual's, gives another update at the second call, or
    /// leaves the branch or one of its parameters without gradient.
    pub fn check_calls(&self, width: i64) -> Result<(), ScriptError> {
        with_grad(|| self.try_calls(width))
    }

    fn try_calls(&self, width: i64) -> Result<(), ScriptError> {
        let shape = [2, 3, width];
        let tried = |what: String| ScriptError(format!("tried on tensors {shape:?}, the module {what}"));
        let ramp = Tensor::arange(6 * width, (Kind::Float, Device::Cpu)).view(shape);
        // Leaves that require a gradient can't be changed in place.
        let [residual, output] = [(&ramp * 0.7).sin(), (&ramp * 0.3).cos()].map(|x| x.set_requires_grad(true));
        let call = |training| self.call(&residual, &output, training).map_err(|e| tried(format!("fails: {e}")));
        let (update, again, _) = (call(true)?, call(true)?, call(false)?);
        let is = (update.size(), update.kind(), update.device());
        if is != (shape.to_vec(), Kind::Float, Device::Cpu) {
            return Err(tried(format!("gives {is:?}, but must give the shape, type and device of the residual")));
        }
        if !update.equal(&again) {
            return Err(tried("gives another update at its second call: it is random, or keeps a state".to_owned()));
        }
        if update.requires_grad() {
            update.sum(Kind::Float).backward();
        }
        let unused = |what: &str| tried(format!("does not use {what}, or cuts off its gradient"));
        if !output.grad().defined() {
            return Err(unused("branch_output"));
        }
        let idle = self.parameters()?.into_iter().find(|(_, parameter)| !parameter.grad().defined());
        idle.map_or(Ok(()), |(name, _)| Err(unused(&format!("its parameter `{name}`"))))
    }
}

/// The last line, which says what is wrong; above it stands a traceback through the module's code.
fn shortened(text: String) -> ScriptError {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    ScriptError(line.map(str::to_owned).unwrap_or(text))
}
