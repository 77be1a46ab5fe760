//! Images that are read from files when a step asks for them, by worker threads that are ahead of it.
//!
//! What a step sees is a function of seed and step alone: workers only compute, in any order and number, and put what they have at its
//! place. A step that is asked for out of turn is computed like any other.

mod images;
mod pending;
mod pool;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use crate::{DataError, Order};
pub(crate) use images::{Images, View};
pub(crate) use pending::{Batch, Pending};
pub(crate) use pool::Pool;

/// Batches that workers decode ahead of the one that is computed. Two: one may be late.
const AHEAD: u64 = 2;

/// The images of a split, in files.
#[derive(Debug)]
pub(crate) struct Stream {
    images: Arc<Images>,
    pool: Arc<Pool>,
    device: Device,
    /// Training batches that were asked for, by (seed, step).
    asked: RefCell<BTreeMap<(u64, u64), Pending>>,
    said: RefCell<Said>,
}

/// What is to be told about files; each file once.
#[derive(Debug, Default)]
struct Said {
    lines: Vec<String>,
    known: HashSet<String>,
}

/// Images and labels of a batch on the device: u8 `[B, C, H, W]`, i64 `[B]`.
pub(crate) type Uploaded = (Tensor, Tensor);

impl Stream {
    pub(crate) fn new(images: Images, pool: Arc<Pool>, device: Device) -> Self {
        Self { images: Arc::new(images), pool, device, asked: RefCell::default(), said: RefCell::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.images.len()
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// The images of these places in the split, as a split.
    pub(crate) fn select(&self, places: &[usize]) -> Self {
        Self::new(self.images.select(places), Arc::clone(&self.pool), self.device)
    }

    /// Sends workers after the batch of `step` and those that come next. What was asked for and is not among them is given up.
    pub(crate) fn expect(&self, seed: u64, order: &mut Order, step: u64) {
        let mut asked = self.asked.borrow_mut();
        asked.retain(|(of, at), _| *of == seed && (step..=step + AHEAD).contains(at));
        for later in step..=step + AHEAD {
            asked.entry((seed, later)).or_insert_with(|| self.ask(seed, later, order.indices(later)));
        }
    }

    /// The training batch of (seed, step), which has these images.
    pub(crate) fn train(&self, seed: u64, step: u64, indices: &[i64]) -> Result<Uploaded, DataError> {
        let asked = self.asked.borrow_mut().remove(&(seed, step));
        self.upload(asked.unwrap_or_else(|| self.ask(seed, step, indices.to_vec())))
    }

    fn ask(&self, seed: u64, step: u64, indices: Vec<i64>) -> Pending {
        let images = Arc::clone(&self.images);
        self.pool.batch(indices.len(), self.images.image_bytes(), move |sample| {
            images.look(indices[sample] as usize, View::Train { seed, step, sample: sample as u64 })
        })
    }

    /// All images in order, `batch` at a time, without those that can't be read.
    pub(crate) fn batches(&self, batch: usize) -> impl Iterator<Item = Result<Uploaded, DataError>> + '_ {
        let mut starts = (0..self.len()).step_by(batch);
        let mut asked = VecDeque::new();
        std::iter::from_fn(move || {
            loop {
                while asked.len() <= AHEAD as usize
                    && let Some(start) = starts.next()
                {
                    let (images, size) = (Arc::clone(&self.images), batch.min(self.len() - start));
                    let look = move |nth| images.look(start + nth, View::Evaluation);
                    asked.push_back(self.pool.batch(size, self.images.image_bytes(), look));
                }
                match self.upload(asked.pop_front()?) {
                    Ok((_, labels)) if labels.size()[0] == 0 => {} // none of them can be read
                    batch => return Some(batch),
                }
            }
        })
    }

    fn upload(&self, asked: Pending) -> Result<Uploaded, DataError> {
        let Batch { pixels, labels, broken } = asked.wait()?;
        let mut said = self.said.borrow_mut();
        for line in broken {
            if said.known.insert(line.clone()) {
                said.lines.push(line);
            }
        }
        let size = i64::from(self.images.size());
        if labels.is_empty() {
            // An empty slice has no address to copy from.
            let empty = Tensor::f_zeros([0, 3, size, size], (Kind::Uint8, self.device))?;
            return Ok((empty, Tensor::f_zeros([0], (Kind::Int64, self.device))?));
        }
        let images = Tensor::f_from_data_size(&pixels, &[labels.len() as i64, 3, size, size], Kind::Uint8)?;
        Ok((images.f_to_device(self.device)?, Tensor::f_from_slice(&labels)?.f_to_device(self.device)?))
    }

    /// What there is to tell since it was last asked: files that can't be read.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.said.borrow_mut().lines)
    }
}
