//! Times the loader of `dataset = "imagefolder"`: one pass over train/ with RandomResizedCrop and mirroring, and one over val/ with the centre.
//!
//! `decode ROOT WORKERS BATCH SIZE` prints images per second, and milliseconds of processor time per image, of both as JSON. experiments/decode-throughput/compare.py calls it.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use reslab_data::{Augment, DataConfig, Order, load};
use reslab_fetch::Sources;
use tch::Device;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, workers, batch, size] = arguments.as_slice() else {
        return Err("decode ROOT WORKERS BATCH SIZE".into());
    };
    let table = format!(
        "dataset = 'imagefolder'\nroot = '{root}'\ntrain_images = 'all'\nval_images = 0\nimage_size = {size}\ncrop_ratio = 0.875\n\
         random_resized_crop = {{ scale = [0.08, 1.0], ratio = [0.75, 1.3333333333333333] }}\nworkers = {workers}\nbroken = 'fail'\n\
         crop_pad = 0\nflip = true\nmixup = 0\ncutmix = 0\nnormalization = 'imagenet'"
    );
    let config = DataConfig::parse(&table.parse()?)?;
    let nowhere = Sources { dirs: Vec::new(), cache: PathBuf::new(), offline: true };
    // The workers are the threads that count.
    tch::set_num_threads(1);
    let splits = load(&config, &nowhere, Device::Cpu)?;
    let batch: usize = batch.parse()?;
    let mut order = Order::new(0, splits.train.len(), batch)?;
    let augment = Augment::new(&config, 0, splits.shape, &splits.norm)?;

    let started = Now::get()?;
    for step in 0..order.steps_per_epoch() {
        augment.train(&splits.train, &mut order, step)?;
    }
    let train = started.figures(order.steps_per_epoch() * batch as u64)?;

    let started = Now::get()?;
    for batch in splits.test.batches(batch) {
        let _ = augment.eval(&batch?.0)?;
    }
    let evaluation = started.figures(splits.test.len() as u64)?;
    println!("{{\"train\": {train}, \"evaluation\": {evaluation}}}");
    Ok(())
}

/// The time, and the processor time of all threads so far, in seconds.
struct Now(Instant, f64);

impl Now {
    fn get() -> Result<Self, Box<dyn Error>> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Result<Vec<f64>, _> = fields.skip(11).take(2).map(str::parse).collect(); // in user and in kernel mode
        Ok(Self(Instant::now(), ticks?.iter().sum::<f64>() / 100.0))
    }

    fn figures(&self, images: u64) -> Result<String, Box<dyn Error>> {
        let now = Self::get()?;
        let speed = images as f64 / (now.0 - self.0).as_secs_f64();
        let milliseconds = 1000.0 * (now.1 - self.1) / images as f64;
        Ok(format!("{{\"images_per_s\": {speed}, \"cpu_ms\": {milliseconds}}}"))
    }
}
