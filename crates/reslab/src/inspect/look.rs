//! What each branch really adds to the stream, on images.

use anyhow::{Context, Result, anyhow};
use reslab_data::{Augment, DataConfig};
use reslab_fetch::Sources;
use reslab_model::{InputShape, LoadOptions, ModelConfig, Vit};
use reslab_pretrained::{Layout, Position, Pretrained};
use reslab_residual::{Pass, Registry, SiteFigures, Strategy};
use reslab_torch::Scope;
use reslab_torch::tch::{Device, Kind, no_grad_guard};

use crate::outcome::Usage;

/// What is looked at.
pub(crate) struct Look<'a> {
    pub file: &'a Pretrained,
    /// The tables of the run that the file is of, where it is one.
    pub run: Option<toml::Table>,
    pub dataset: &'a str,
    pub images: u64,
    pub num_heads: Option<i64>,
}

/// What was found, and on what.
pub(crate) struct Found {
    /// Two per block, in network order.
    pub sites: Vec<SiteFigures>,
    /// `64 images of fashion-mnist at 28 x 28`.
    pub on: String,
}

/// Sends the first images of the validation split through the network, in eval mode.
///
/// # Errors
/// What the network, the data set or the two together refuse.
pub(crate) fn look(asked: &Look, registry: &Registry, sources: &Sources) -> Result<Found> {
    let model = asked.model()?;
    let strategy = asked.strategy(registry)?;
    let data = asked.data(&model)?;
    let shape = data.shape().map_err(Usage::error)?;
    let input =
        InputShape { channels: shape.channels, height: shape.height, width: shape.width, classes: shape.classes };
    let vit =
        Vit::new(&Scope::new(0, Kind::Float, Device::Cpu), &model, strategy.as_ref(), input).map_err(Usage::error)?;
    let options = LoadOptions { replace_head: true, ..LoadOptions::default() };
    vit.load(asked.file, &options).map_err(Usage::error)?;
    let splits = reslab_data::load(&data, sources, Device::Cpu)?;
    let augment = Augment::new(&data, 0, splits.shape, &splits.norm)?;
    let _no_grad = no_grad_guard();
    let mut pass = Pass::eval().observe(true);
    let (images, _) =
        splits.val.batches(asked.images as usize).next().context("the data set has no image to look at")??;
    let _features = vit.features(&augment.eval(&images)?, &mut pass);
    let telemetry = pass.take_telemetry();
    let values = Vec::<f32>::try_from(telemetry.stack().to_kind(Kind::Float).view([-1]))
        .map_err(|error| anyhow!("the figures can't be read: {error}"))?;
    let on = format!("{} images of {} at {} x {}", asked.images, asked.dataset, shape.height, shape.width);
    Ok(Found { sites: telemetry.decode(&values), on })
}

impl Look<'_> {
    /// The table `[model]`: the run's, or what the file tells.
    fn model(&self) -> Result<ModelConfig> {
        let of_run = self.run.as_ref().and_then(|run| run.get("model")?.as_table().cloned());
        let mut table = of_run.unwrap_or_else(|| self.file.architecture().model_table());
        for key in ["pretrained", "pretrained_sha256"] {
            table.remove(key);
        }
        if let Some(heads) = self.num_heads {
            table.insert("num_heads".to_owned(), heads.into());
        }
        if !table.contains_key("num_heads") {
            return Err(Usage::error("the file does not tell its number of heads; give it by --num-heads"));
        }
        table.entry("norm").or_insert("pre".into());
        ModelConfig::parse(&table).map_err(Usage::error)
    }

    fn strategy(&self, registry: &Registry) -> Result<Box<dyn Strategy>> {
        let of_run = self.run.as_ref().and_then(|run| run.get("residual")?.as_table().cloned());
        let table = of_run.unwrap_or_else(|| {
            // Every gamma is overwritten by the file's.
            let text =
                if self.file.architecture().gamma { "kind = 'layer_scale'\ninit = 1.0" } else { "kind = 'plain'" };
            text.parse().expect("a table")
        });
        registry.parse(&table).map_err(Usage::error)
    }

    /// The table `[data]`: the run's own on its own data set; else the images as the file's network takes them.
    fn data(&self, model: &ModelConfig) -> Result<DataConfig> {
        let of_run = self.run.as_ref().and_then(|run| run.get("data")?.as_table().cloned());
        let own = of_run.filter(|data| data.get("dataset").and_then(toml::Value::as_str) == Some(self.dataset));
        let is_own = own.is_some();
        let mut table = own.unwrap_or_else(|| {
            let text = format!("dataset = '{}'\ncrop_pad = 0\nflip = false\nmixup = 0.0\ncutmix = 0.0", self.dataset);
            text.parse().unwrap_or_default()
        });
        table.insert("val_images".to_owned(), (self.images as i64).into());
        if !is_own {
            table.insert("train_images".to_owned(), "all".into());
            let plain = DataConfig::parse(&table).map_err(Usage::error)?.shape().map_err(Usage::error)?;
            let size = self.side(model.patch_size, plain.height);
            if size != plain.height {
                table.insert("image_size".to_owned(), size.into());
            }
            let channels = self.file.architecture().channels as i64;
            if channels != plain.channels {
                table.insert("channels".to_owned(), channels.into());
            }
            if self.file.layout() != Layout::Reslab && channels == 3 {
                table.insert("normalization".to_owned(), "imagenet".into());
            }
        }
        DataConfig::parse(&table).map_err(Usage::error)
    }

    /// The side of the images: what the file's positions are for, else the next multiple of the patch's.
    fn side(&self, patch: i64, own: i64) -> i64 {
        match (self.file.architecture().grid, self.file.architecture().position) {
            (Some((rows, _)), Position::All | Position::Patches) => rows as i64 * patch,
            _ => (own + patch - 1) / patch * patch,
        }
    }
}
