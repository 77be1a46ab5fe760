//! The border to `shim/` and to the dynamic linker: all `unsafe` code of the crate stands here.
//!
//! The functions below are safe: they check what the C++ side takes for granted (lists of one length), keep every tensor
//! borrowed for the length of the call, and turn its error texts into `Err`.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr::null_mut;

use tch::Tensor;
use torch_sys::C_tensor;

/// A borrowed list of tensors, as C++ sees it.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawList {
    data: *const *const C_tensor,
    len: usize,
}

/// Numbers of one AdamW step.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamW {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub weight_decay: f64,
    pub eps: f64,
}

/// Numbers of one SGD step.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sgd {
    pub lr: f64,
    pub momentum: f64,
    pub weight_decay: f64,
}

/// State of autocast for CUDA in this thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Autocast {
    pub device: i32,
    pub enabled: i32,
    pub dtype: i32,
    pub cache: i32,
}

unsafe extern "C" {
    fn reslab_free(text: *mut c_char);
    fn reslab_fused_adamw(w: RawList, g: RawList, m: RawList, v: RawList, t: RawList, rule: AdamW) -> *mut c_char;
    fn reslab_fused_sgd(w: RawList, g: RawList, momentum: RawList, rule: Sgd) -> *mut c_char;
    fn reslab_foreach_norms(tensors: RawList, out: *mut *mut C_tensor) -> *mut c_char;
    fn reslab_foreach_norm(tensors: RawList, out: *mut *mut C_tensor) -> *mut c_char;
    fn reslab_foreach_distance(a: RawList, b: RawList, out: *mut *mut C_tensor) -> *mut c_char;
    fn reslab_foreach_clip(grads: RawList, norm: *const C_tensor, max: f64) -> *mut c_char;
    fn reslab_foreach_lerp(into: RawList, from: RawList, weight: f64) -> *mut c_char;
    fn reslab_foreach_copy(into: RawList, from: RawList) -> *mut c_char;
    fn reslab_forget_grads(parameters: RawList) -> *mut c_char;
    fn reslab_attention(qkv: *const C_tensor, heads: i64, out: *mut *mut C_tensor) -> *mut c_char;
    fn reslab_set_threads(n: i32) -> *mut c_char;
    fn reslab_set_interop_threads(n: i32) -> *mut c_char;
    fn reslab_keep_freed_memory();
    fn reslab_set_deterministic(on: bool) -> *mut c_char;
    fn reslab_set_math_attention_only(on: bool) -> *mut c_char;
    fn reslab_set_tf32(on: bool) -> *mut c_char;
    fn reslab_is_deterministic() -> bool;
    fn reslab_uses_flash_attention() -> bool;
    fn reslab_uses_tf32() -> bool;
    fn reslab_runtime_version() -> u64;
    fn reslab_header_version() -> *const c_char;
    fn reslab_autocast_state(device: i32, out: *mut Autocast) -> *mut c_char;
    fn reslab_autocast_enter(device: i32, on: bool) -> *mut c_char;
    fn reslab_autocast_leave(before: Autocast) -> *mut c_char;
    fn reslab_cuda_peak_bytes(device: i32, out: *mut i64) -> *mut c_char;
    fn reslab_cuda_reset_peak(device: i32) -> *mut c_char;
    fn reslab_cuda_empty_cache() -> *mut c_char;
}

/// Pointers to tensors that stay borrowed as long as this lives.
struct Pointers<'a> {
    pointers: Vec<*const C_tensor>,
    _tensors: std::marker::PhantomData<&'a Tensor>,
}

impl<'a> Pointers<'a> {
    fn new(tensors: &'a [Tensor]) -> Pointers<'a> {
        Pointers { pointers: tensors.iter().map(Tensor::as_ptr).collect(), _tensors: std::marker::PhantomData }
    }

    fn raw(&self) -> RawList {
        RawList { data: self.pointers.as_ptr(), len: self.pointers.len() }
    }
}

/// Takes over an error text of the shim; null is success.
fn outcome(text: *mut c_char) -> Result<(), String> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: the shim returns null or a NUL-terminated string from malloc that it hands over; it is read, then freed once.
    unsafe {
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        reslab_free(text);
        Err(message)
    }
}

/// Runs a shim function that stores one new tensor through its last argument.
fn made(call: impl FnOnce(*mut *mut C_tensor) -> *mut c_char) -> Result<Tensor, String> {
    let mut out: *mut C_tensor = null_mut();
    outcome(call(&mut out))?;
    // SAFETY: on success the shim stored a tensor made by `new`, whose ownership passes to the `Tensor` here.
    Ok(unsafe { Tensor::from_ptr(out) })
}

fn same_length(lists: &[&[Tensor]]) {
    assert!(lists.windows(2).all(|pair| pair[0].len() == pair[1].len()), "lists of tensors differ in length");
}

/// One AdamW step over lists of one length; `steps` are counted up first.
pub(crate) fn fused_adamw_(lists: [&[Tensor]; 5], rule: AdamW) -> Result<(), String> {
    same_length(&lists);
    let [w, g, m, v, t] = lists.map(Pointers::new);
    // SAFETY: five lists of one length, of valid tensors that are borrowed beyond the call; `AdamW` is the C++ struct.
    outcome(unsafe { reslab_fused_adamw(w.raw(), g.raw(), m.raw(), v.raw(), t.raw(), rule) })
}

/// One SGD step. Without momentum its list is empty, as libtorch wants it.
pub(crate) fn fused_sgd_(
    parameters: &[Tensor],
    grads: &[Tensor],
    momentum: &[Tensor],
    rule: Sgd,
) -> Result<(), String> {
    same_length(&[parameters, grads]);
    if rule.momentum != 0.0 {
        same_length(&[parameters, momentum]);
    }
    let [w, g, buffers] = [parameters, grads, momentum].map(Pointers::new);
    // SAFETY: lists of valid tensors that are borrowed beyond the call; `Sgd` is the C++ struct.
    outcome(unsafe { reslab_fused_sgd(w.raw(), g.raw(), buffers.raw(), rule) })
}

/// 2-norms of a list that is not empty, f32 [n].
pub(crate) fn norms(tensors: &[Tensor]) -> Result<Tensor, String> {
    let list = Pointers::new(tensors);
    // SAFETY: a list of valid tensors that is borrowed beyond the call.
    made(|out| unsafe { reslab_foreach_norms(list.raw(), out) })
}

/// Global 2-norm of a list that is not empty, f32 [].
pub(crate) fn norm(tensors: &[Tensor]) -> Result<Tensor, String> {
    let list = Pointers::new(tensors);
    // SAFETY: as in `norms`.
    made(|out| unsafe { reslab_foreach_norm(list.raw(), out) })
}

/// Global 2-norm of the differences of two lists that are not empty, f32 [].
pub(crate) fn distance(a: &[Tensor], b: &[Tensor]) -> Result<Tensor, String> {
    same_length(&[a, b]);
    let [a, b] = [a, b].map(Pointers::new);
    // SAFETY: two lists of one length, of valid tensors that are borrowed beyond the call.
    made(|out| unsafe { reslab_foreach_distance(a.raw(), b.raw(), out) })
}

/// Scales a list that is not empty by `min(1, max / (norm + 1e-6))`.
pub(crate) fn clip_(grads: &[Tensor], norm: &Tensor, max: f64) -> Result<(), String> {
    let list = Pointers::new(grads);
    // SAFETY: a list and a tensor that are valid and borrowed beyond the call.
    outcome(unsafe { reslab_foreach_clip(list.raw(), norm.as_ptr(), max) })
}

/// `into += weight * (from - into)`.
pub(crate) fn lerp_(into: &[Tensor], from: &[Tensor], weight: f64) -> Result<(), String> {
    same_length(&[into, from]);
    let [into, from] = [into, from].map(Pointers::new);
    // SAFETY: two lists of one length, of valid tensors that are borrowed beyond the call.
    outcome(unsafe { reslab_foreach_lerp(into.raw(), from.raw(), weight) })
}

/// `into = from`.
pub(crate) fn copy_(into: &[Tensor], from: &[Tensor]) -> Result<(), String> {
    same_length(&[into, from]);
    let [into, from] = [into, from].map(Pointers::new);
    // SAFETY: two lists of one length, of valid tensors that are borrowed beyond the call.
    outcome(unsafe { reslab_foreach_copy(into.raw(), from.raw()) })
}

/// Drops the gradients of all.
pub(crate) fn forget_grads(parameters: &[Tensor]) -> Result<(), String> {
    let list = Pointers::new(parameters);
    // SAFETY: a list of valid tensors that is borrowed beyond the call.
    outcome(unsafe { reslab_forget_grads(list.raw()) })
}

/// Attention of f32 [B, N, 3 H E] on the CPU -> [B, N, H E].
pub(crate) fn attention(qkv: &Tensor, heads: i64) -> Result<Tensor, String> {
    // SAFETY: a valid tensor that is borrowed beyond the call; the shim checks device, type and shape.
    made(|out| unsafe { reslab_attention(qkv.as_ptr(), heads, out) })
}

/// Threads within one operator.
pub(crate) fn set_threads(n: i32) -> Result<(), String> {
    // SAFETY: plain value; the shim catches what libtorch throws.
    outcome(unsafe { reslab_set_threads(n) })
}

/// Threads between operators; fails when it was set before.
pub(crate) fn set_interop_threads(n: i32) -> Result<(), String> {
    // SAFETY: plain value; the shim catches what libtorch throws.
    outcome(unsafe { reslab_set_interop_threads(n) })
}

/// The allocator of the host keeps what is freed.
pub(crate) fn keep_freed_memory() {
    // SAFETY: no arguments; it sets numbers in the C library's allocator.
    unsafe { reslab_keep_freed_memory() }
}

/// Deterministic algorithms and cuDNN.
pub(crate) fn set_deterministic(on: bool) -> Result<(), String> {
    // SAFETY: plain value.
    outcome(unsafe { reslab_set_deterministic(on) })
}

/// Leaves only the math form of attention, or all forms.
pub(crate) fn set_math_attention_only(on: bool) -> Result<(), String> {
    // SAFETY: plain value.
    outcome(unsafe { reslab_set_math_attention_only(on) })
}

/// TF32 in cuBLAS and cuDNN.
pub(crate) fn set_tf32(on: bool) -> Result<(), String> {
    // SAFETY: plain value.
    outcome(unsafe { reslab_set_tf32(on) })
}

/// Whether deterministic algorithms are on.
pub(crate) fn is_deterministic() -> bool {
    // SAFETY: reads a flag.
    unsafe { reslab_is_deterministic() }
}

/// Whether attention may take the flash form.
pub(crate) fn uses_flash_attention() -> bool {
    // SAFETY: reads a flag.
    unsafe { reslab_uses_flash_attention() }
}

/// Whether matrix products may use TF32.
pub(crate) fn uses_tf32() -> bool {
    // SAFETY: reads a flag.
    unsafe { reslab_uses_tf32() }
}

/// Version of the library that is loaded, one byte each: major, minor, patch, then a tag.
pub(crate) fn runtime_version() -> u64 {
    // SAFETY: returns a constant of the library.
    unsafe { reslab_runtime_version() }
}

/// Version of the headers that the shim was compiled with.
pub(crate) fn header_version() -> &'static str {
    // SAFETY: a string literal of the shim.
    unsafe { CStr::from_ptr(reslab_header_version()) }.to_str().expect("a version is ASCII")
}

/// This thread's autocast state for a type of device: 0 CPU, 1 CUDA.
pub(crate) fn autocast_state(device: i32) -> Result<Autocast, String> {
    let mut state = Autocast { device, enabled: 0, dtype: 0, cache: 0 };
    // SAFETY: the shim writes one struct of this layout before it returns.
    outcome(unsafe { reslab_autocast_state(device, &mut state) })?;
    Ok(state)
}

/// Turns bf16 autocast on or off, one level deeper.
pub(crate) fn autocast_enter(device: i32, on: bool) -> Result<(), String> {
    // SAFETY: plain values.
    outcome(unsafe { reslab_autocast_enter(device, on) })
}

/// Leaves that level and restores the state before it.
pub(crate) fn autocast_leave(before: Autocast) -> Result<(), String> {
    // SAFETY: a state that `autocast_state` gave, so its dtype is one of libtorch's.
    outcome(unsafe { reslab_autocast_leave(before) })
}

/// Largest number of bytes that tensors of this CUDA device held at once.
pub(crate) fn cuda_peak_bytes(device: i32) -> Result<i64, String> {
    let mut bytes = 0;
    // SAFETY: the shim writes one integer before it returns.
    outcome(unsafe { reslab_cuda_peak_bytes(device, &mut bytes) })?;
    Ok(bytes)
}

/// Starts that count anew.
pub(crate) fn cuda_reset_peak(device: i32) -> Result<(), String> {
    // SAFETY: plain value.
    outcome(unsafe { reslab_cuda_reset_peak(device) })
}

/// Gives cached blocks back to the driver.
pub(crate) fn cuda_empty_cache() -> Result<(), String> {
    // SAFETY: no arguments.
    outcome(unsafe { reslab_cuda_empty_cache() })
}

/// Loads a library for the rest of the process and lets all others see its symbols.
pub(crate) fn open_library(path: &Path) -> Result<(), String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: runs the library's initialisers. The callers name NVIDIA's driver and libtorch's own libraries only, whose
    // initialisers are made for this; the handle is leaked, so no symbol of it ever dangles.
    match unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        // The loader's own words are the error's source.
        Err(error) => Err(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)),
    }
}
