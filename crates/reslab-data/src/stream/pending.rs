//! A batch that workers are at.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::images::Look;
use super::pool::{Job, Pool};
use crate::DataError;

/// A batch that was asked for; dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Pending(Arc<Shared>);

/// A batch on the host. Samples that could not be read are not in it.
#[derive(Debug)]
pub(crate) struct Batch {
    /// u8 `[B, 3, H, W]`.
    pub(crate) pixels: Vec<u8>,
    /// `[B]`.
    pub(crate) labels: Vec<i64>,
    /// What is wrong with which files, in the samples' order.
    pub(crate) broken: Vec<String>,
}

#[derive(Debug)]
struct Shared {
    slots: Mutex<Slots>,
    done: Condvar,
    is_given_up: AtomicBool,
}

#[derive(Debug)]
struct Slots {
    image_bytes: usize,
    pixels: Vec<u8>,
    /// One per sample; none where it could not be read.
    labels: Vec<Option<u16>>,
    broken: Vec<(usize, Vec<String>)>,
    /// The error of the first sample that has one.
    error: Option<(usize, DataError)>,
    left: usize,
}

impl Pool {
    /// Asks for a batch of `samples`, each made by `look`.
    pub(crate) fn batch(
        &self,
        samples: usize,
        image_bytes: usize,
        look: impl Fn(usize) -> Result<Look, DataError> + Send + Sync + 'static,
    ) -> Pending {
        let slots = Slots {
            image_bytes,
            pixels: vec![0; samples * image_bytes],
            labels: vec![None; samples],
            broken: Vec::new(),
            error: None,
            left: samples,
        };
        let shared =
            Arc::new(Shared { slots: Mutex::new(slots), done: Condvar::new(), is_given_up: AtomicBool::new(false) });
        let look = Arc::new(look);
        self.push((0..samples).map(|sample| -> Job {
            let (shared, look) = (Arc::clone(&shared), Arc::clone(&look));
            Box::new(move || {
                if !shared.is_given_up.load(Ordering::Relaxed) {
                    let found = catch_unwind(AssertUnwindSafe(|| look(sample)));
                    shared.put(sample, found.unwrap_or(Err(DataError::Panic)));
                }
            })
        }));
        Pending(shared)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, sample: usize, found: Result<Look, DataError>) {
        // Turned into planes before the lock is taken, so that workers wait for a copy only.
        let found = found.map(|look| {
            let planes = look.image.map(|image| {
                let mut planes = vec![0; image.pixels().len()];
                image.write_planes(&mut planes);
                planes
            });
            (planes, look.label, look.broken)
        });
        let mut slots = self.lock();
        match found {
            Ok((planes, label, broken)) => {
                if let Some(planes) = planes {
                    let start = sample * slots.image_bytes;
                    slots.pixels[start..start + planes.len()].copy_from_slice(&planes);
                    slots.labels[sample] = Some(label);
                }
                if !broken.is_empty() {
                    slots.broken.push((sample, broken));
                }
            }
            Err(error) if slots.error.as_ref().is_none_or(|(first, _)| sample < *first) => {
                slots.error = Some((sample, error));
            }
            Err(_) => {}
        }
        slots.left -= 1;
        if slots.left == 0 {
            self.done.notify_all();
        }
    }
}

impl Pending {
    /// The batch, when all its samples are there.
    pub(crate) fn wait(self) -> Result<Batch, DataError> {
        let slots = self.0.lock();
        let mut slots = self.0.done.wait_while(slots, |slots| slots.left > 0).unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = slots.error.take() {
            return Err(error);
        }
        slots.broken.sort_by_key(|(sample, _)| *sample);
        let broken = std::mem::take(&mut slots.broken).into_iter().flat_map(|(_, lines)| lines).collect();
        let mut pixels = std::mem::take(&mut slots.pixels);
        if slots.labels.contains(&None) {
            let images = pixels.chunks_exact(slots.image_bytes).zip(&slots.labels);
            pixels = images.filter(|(_, label)| label.is_some()).flat_map(|(image, _)| image).copied().collect();
        }
        let labels = slots.labels.iter().flatten().map(|label| i64::from(*label)).collect();
        Ok(Batch { pixels, labels, broken })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }
}
