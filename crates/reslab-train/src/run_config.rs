//! A run's whole configuration: the tables of a sweep file for one arm, checked together.

use std::path::Path;

use reslab_config::{ConfigError, nearest, require};
use reslab_data::{DataConfig, DataShape};
use reslab_model::{InputShape, LoadError, ModelConfig, ModelError, Vit, flops_per_image};
use reslab_pretrained::Pretrained;
use reslab_residual::{DropPathConfig, Norm, Registry, Strategy, check_compatible};
use reslab_torch::{Parameter, Scope};

use crate::config::{OptimConfig, Precision, ReportWeights, TrainConfig};
use crate::finetune::{Backbone, FinetuneConfig, GammaRule, Source, WeightsFrom, complete, fitted, is_trained};

/// The tables of a run, in the order in which they are written.
pub const TABLES: [&str; 7] = ["data", "model", "train", "optim", "residual", "drop_path", "finetune"];

/// What one run computes, but for its seed: every value was checked, alone and against the others.
#[derive(Debug)]
pub struct RunConfig {
    pub(crate) data: DataConfig,
    pub(crate) model: ModelConfig,
    pub(crate) train: TrainConfig,
    pub(crate) optim: OptimConfig,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) drop_path: DropPathConfig,
    pub(crate) finetune: Option<FinetuneConfig>,
    /// The file of `model.pretrained`.
    pretrained: Option<Source>,
    pub(crate) shape: DataShape,
    steps: u64,
    /// Micro-batches per batch, where they are not those of the table.
    pub(crate) micro_batches: Option<u64>,
}

/// What is known about a run's network before any of it is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Trainable parameters.
    pub parameters: u64,
    /// Floating-point operations of one image's forward pass (a multiply-add is two).
    pub flops_per_image: f64,
    /// Optimizer steps of the run.
    pub steps: u64,
    /// Images that pass through the network in training: steps times batch.
    pub train_images: u64,
    /// Images that pass through it in all evaluations together.
    pub eval_images: u64,
}

impl RunConfig {
    /// Reads and checks the resolved tables of a run.
    ///
    /// # Errors
    /// Every table's first error, and what does not fit between tables that are right alone.
    pub fn from_table(table: &toml::Table, registry: &Registry) -> Result<Self, Vec<ConfigError>> {
        let mut errors = unknown_tables(table);
        let mut keep = |error| errors.push(error);
        let completed = section(table, "model").and_then(complete).map_err(&mut keep).ok();
        let (model, mut pretrained) = completed.map_or((None, None), |c| (Some(c.table), c.source));
        let data = section(table, "data").and_then(|data| match &mut pretrained {
            Some(source) => DataConfig::parse(&fitted(data, source)?),
            None => DataConfig::parse(data),
        });
        let data = data.map_err(&mut keep).ok();
        let model = model.and_then(|table| ModelConfig::parse(&table).map_err(&mut keep).ok());
        let train = section(table, "train").and_then(TrainConfig::parse).map_err(&mut keep).ok();
        let optim = section(table, "optim").and_then(OptimConfig::parse).map_err(&mut keep).ok();
        let strategy = section(table, "residual").and_then(|t| registry.parse(t)).map_err(&mut keep).ok();
        let drop_path = match table.get("drop_path") {
            None => Some(DropPathConfig::none()),
            Some(_) => section(table, "drop_path").and_then(DropPathConfig::parse).map_err(&mut keep).ok(),
        };
        let finetune = match table.get("finetune") {
            None => Some(None),
            Some(_) => section(table, "finetune").and_then(FinetuneConfig::parse).map_err(&mut keep).ok().map(Some),
        };
        let (Some(data), Some(model), Some(train), Some(optim), Some(strategy), Some(drop_path), Some(finetune)) =
            (data, model, train, optim, strategy, drop_path, finetune)
        else {
            return Err(errors);
        };
        if !errors.is_empty() {
            return Err(errors);
        }
        let shape = data.shape().map_err(|e| vec![e])?;
        let steps = steps(&train, &data).map_err(|e| vec![e])?;
        let config = Self {
            data,
            model,
            train,
            optim,
            strategy,
            drop_path,
            finetune,
            pretrained,
            shape,
            steps,
            micro_batches: None,
        };
        let strategy = config.strategy.as_ref();
        let joined = config.model.placement(strategy);
        let together = [
            config.check_validation(),
            config.check_finetune(),
            config.train.check_ema(steps),
            config.optim.check_warmup(steps),
            config.model.check_input(config.input()),
            joined.and_then(|norm| check_compatible(strategy, &config.drop_path, norm)),
        ];
        let errors: Vec<ConfigError> = together.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    /// Writes into the run's tables what they name but do not hold: the checksums of files that the strategy reads, and of the listing of
    /// a folder of images.
    pub fn pin(&self, table: &mut toml::Table) {
        for (key, pins) in [("residual", self.strategy.pins()), ("data", self.data.pins())] {
            if let Some(toml::Value::Table(named)) = table.get_mut(key) {
                named.extend(pins);
            }
        }
        if let Some(source) = &self.pretrained {
            let of = |key: &str| table.get(key).and_then(toml::Value::as_table).cloned().unwrap_or_default();
            let (mut model, mut data) = (of("model"), of("data"));
            source.pin((&mut model, &mut data));
            table.insert("model".to_owned(), model.into());
            table.insert("data".to_owned(), data.into());
        }
    }

    /// Optimizer steps of the run.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Images per optimizer step.
    pub fn batch(&self) -> i64 {
        self.train.batch
    }

    /// Splits every batch into this many micro-batches, whatever its table says: draws are made for the whole batch, so
    /// the experiment stays the same but for rounding.
    ///
    /// # Errors
    /// `train.batch` can't be split so.
    pub fn split_batch(&mut self, micro_batches: u64) -> Result<(), ConfigError> {
        let parts = i64::try_from(micro_batches).unwrap_or(0);
        require(parts >= 1 && self.train.batch % parts == 0, "train.batch", || {
            format!("{} images can't be split into {micro_batches} micro-batches", self.train.batch)
        })?;
        // What the config says itself is nothing to tell.
        self.micro_batches = (parts != self.train.accumulate).then_some(micro_batches);
        self.train.accumulate = parts;
        Ok(())
    }

    /// Whether the run can be computed on `device_kind` (`cpu` or `cuda`).
    ///
    /// # Errors
    /// `train.precision` where it is bf16 and the device is a CPU.
    pub fn check_device(&self, device_kind: &str) -> Result<(), ConfigError> {
        require(self.train.precision == Precision::Fp32 || device_kind != "cpu", "train.precision", || {
            "\"bf16\" needs CUDA, but the run is for the CPU; use \"fp32\", here or in [profile.cpu]".to_owned()
        })
    }

    /// The file that the network's weights are taken from, if they are.
    pub(crate) fn pretrained(&self) -> Option<&Path> {
        let finetune = self.finetune.as_ref()?;
        (finetune.weights == WeightsFrom::File).then_some(self.pretrained.as_ref()?.path.as_path())
    }

    /// What a reader should know before this run is started.
    pub fn warning(&self) -> Option<String> {
        match self.finetune.as_ref()?.gamma {
            GammaRule::Reset(value) if self.pretrained().is_some() => Some(format!(
                "finetune.gamma = {{ reset = {value:?} }} sets what the pretrained network has learned to {value:?}: this tears its function down, and is not a small start; \
                 `fold_reset` keeps the function"
            )),
            _ => None,
        }
    }

    /// Whether the network can take over the file that the config names.
    fn check_file(&self, vit: &Vit) -> Result<(), ConfigError> {
        let (Some(path), Some(finetune)) = (self.pretrained(), &self.finetune) else { return Ok(()) };
        let refuse = |error: &dyn std::fmt::Display| ConfigError::new("model.pretrained", error.to_string());
        let file = Pretrained::open(path).map_err(|error| refuse(&error))?;
        let lacks_gamma = |error: &LoadError| matches!(error, LoadError::Unfit(report) if report.lacks_gamma());
        vit.check_load(&file, &finetune.load_options()).map_err(|error| {
            let mut problem = error.to_string().replace("\n ", ";");
            if lacks_gamma(&error) {
                problem += "; take a residual with a gamma, or finetune.gamma = \"fold\", which needs none";
            }
            refuse(&problem)
        })?;
        Ok(())
    }

    fn check_finetune(&self) -> Result<(), ConfigError> {
        let Some(finetune) = &self.finetune else {
            return require(self.pretrained.is_none(), "finetune", || {
                "this table is missing: model.pretrained is given, and it says what becomes of the file's weights"
                    .to_owned()
            });
        };
        require(self.pretrained.is_some(), "model.pretrained", || {
            "is missing: the table [finetune] stands here, which says what becomes of a pretrained file's weights"
                .to_owned()
        })?;
        require(finetune.backbone == Backbone::Train || self.drop_path.rate == 0.0, "drop_path.rate", || {
            format!("must be 0 where finetune.backbone is \"frozen\", but is {}", self.drop_path.rate)
        })?;
        let counts = self.data.counts()?;
        require(counts.val > 0, "data.val_images", || {
            "must be above 0: before step 0 the features of validation images are compared".to_owned()
        })?;
        let neighbours = finetune.knn().map_or(0, |knn| knn.images);
        require(neighbours <= counts.train, "finetune.knn.images", || {
            format!("must be at most the {} training images, but is {neighbours}", counts.train)
        })?;
        let folds = matches!(finetune.gamma, GammaRule::Fold | GammaRule::FoldReset(_));
        let norm = self.model.placement(self.strategy.as_ref())?;
        require(!folds || norm != Norm::Both, "finetune.gamma", || {
            "a gamma behind a norm (model.norm = \"both\") can't be folded into the projection before it".to_owned()
        })
    }

    fn check_validation(&self) -> Result<(), ConfigError> {
        let validates = self.data.counts()?.val > 0;
        require(validates || self.train.report == ReportWeights::Last, "train.report", || {
            "\"best_val\" chooses on the validation split, but data.val_images is 0".to_owned()
        })
    }

    /// Shape of what the network reads and answers.
    pub(crate) fn input(&self) -> InputShape {
        let DataShape { channels, height, width, classes, .. } = self.shape;
        InputShape { channels, height, width, classes }
    }

    /// Parameters, operations and amounts, counted on a network without memory.
    ///
    /// # Errors
    /// Where the strategy refuses the network.
    pub fn facts(&self) -> Result<Facts, ConfigError> {
        let scope = Scope::counting();
        let vit = Vit::new(&scope, &self.model, self.strategy.as_ref(), self.input()).map_err(refusal)?;
        self.check_file(&vit)?;
        let counts = self.data.counts()?;
        let is_trained = |p: &&Parameter| self.finetune.as_ref().is_none_or(|finetune| is_trained(finetune, p));
        let parameters = scope.parameters().iter().filter(is_trained).map(|p| p.tensor.numel() as u64).sum();
        let evaluations = match self.train.eval_every {
            0 => 1,
            every => self.steps.div_ceil(every),
        };
        let weights = if self.train.ema_decay > 0.0 { 2 } else { 1 };
        Ok(Facts {
            parameters,
            flops_per_image: flops_per_image(&self.model, self.input()),
            steps: self.steps,
            train_images: self.steps * self.train.batch as u64,
            eval_images: weights * (evaluations * counts.val + counts.test),
        })
    }

    /// Rows that steps.csv, evals.csv, probes.csv and layers.csv hold when `step` steps are done, without the
    /// evaluations of the end.
    pub(crate) fn rows_before(&self, step: u64) -> [u64; 4] {
        let validates = self.data.counts().is_ok_and(|counts| counts.val > 0);
        let weights = if self.train.ema_decay > 0.0 { 2 } else { 1 };
        // A step is watched from the first on; validation comes after the last of an interval.
        let (watched, looks) = match self.train.telemetry_every {
            0 => (0, 0),
            every => (step.div_ceil(every), 1),
        };
        let evaluations = self.last_evaluated(step).checked_div(self.train.eval_every).unwrap_or(0);
        let evaluations = u64::from(validates) * evaluations;
        let depth = self.model.depth as u64;
        [step, weights * evaluations, looks * depth * evaluations, watched * 2 * depth]
    }

    /// The steps before which evaluations belong to the way, when `step` are done: those after the last step are the
    /// end's, which is computed as a whole.
    pub(crate) fn last_evaluated(&self, step: u64) -> u64 {
        step.min(self.steps - 1)
    }
}

/// The refusal of a network, at the table that can change it.
fn refusal(error: ModelError) -> ConfigError {
    match error {
        ModelError::Config(error) => error,
        ModelError::Scope(error) => ConfigError::new("model", error.to_string()),
        ModelError::Strategy(error) => ConfigError::new("residual", error.to_string()),
    }
}

fn unknown_tables(table: &toml::Table) -> Vec<ConfigError> {
    let unknown = table.keys().filter(|key| !TABLES.contains(&key.as_str()));
    let problem = |key: &String| match nearest(key, TABLES) {
        Some(near) => format!("unknown table; did you mean `{near}`?"),
        None => format!("unknown table. Known: {}", TABLES.join(", ")),
    };
    unknown.map(|key| ConfigError::new(key.clone(), problem(key))).collect()
}

fn section<'a>(table: &'a toml::Table, key: &str) -> Result<&'a toml::Table, ConfigError> {
    match table.get(key) {
        Some(toml::Value::Table(section)) => Ok(section),
        Some(other) => Err(ConfigError::new(key, format!("must be a table, but is a {}", other.type_str()))),
        None => Err(ConfigError::new(key, "this table is missing")),
    }
}

/// Steps of the run: given, or full batches in the epochs given.
fn steps(train: &TrainConfig, data: &DataConfig) -> Result<u64, ConfigError> {
    let images = data.counts()?.train;
    let per_epoch = images / train.batch as u64;
    require(per_epoch > 0, "train.batch", || {
        format!("must be at most the number of training images, {images}, but is {}", train.batch)
    })?;
    let (key, steps) = match train.epochs {
        Some(epochs) => ("train.epochs", epochs.checked_mul(per_epoch)),
        None => ("train.steps", train.steps),
    };
    let fits = |steps: &u64| steps.checked_mul(train.batch as u64).is_some();
    steps.filter(fits).ok_or_else(|| ConfigError::new(key, "the run is too long: its images can't be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(length: &str) -> toml::Table {
        let text = format!(
            "data = {{ dataset = 'digits', train_images = 'all', val_images = 0, crop_pad = 0, flip = false, mixup = 0.0, cutmix = 0.0 }}
            model = {{ kind = 'vit', depth = 1, width = 8, num_heads = 1, patch_size = 4, mlp_ratio = 1.0, qkv_bias = true, \
                       pool = 'mean', norm_eps = 1e-6, norm = 'pre' }}
            train = {{ {length}, batch = 64, accumulate = 1, clip = 0.0, label_smoothing = 0.0, precision = 'fp32', eval_every = 0, \
                       telemetry_every = 0, checkpoint_every = 0, ema_decay = 0.0, report = 'last', deterministic = false }}
            optim = {{ kind = 'sgd', lr = 0.1, momentum = 0.0, weight_decay = 0.0, warmup_steps = 0, schedule = 'constant' }}
            residual = {{ kind = 'plain' }}"
        );
        text.parse().unwrap()
    }

    #[test]
    fn a_length_that_cannot_be_counted_is_refused_at_its_key() {
        let read = |length| RunConfig::from_table(&tables(length), &Registry::builtin());
        assert_eq!(read("epochs = 3").unwrap().steps(), 3 * (1442 / 64));
        for (length, key) in
            [("epochs = 9000000000000000000", "train.epochs"), ("steps = 9000000000000000000", "train.steps")]
        {
            let errors = read(length).unwrap_err();
            assert_eq!(errors[0].key, key, "{}", errors[0]);
            assert!(errors[0].problem.contains("too long"), "{}", errors[0]);
        }
    }

    #[test]
    fn the_network_reads_images_as_the_data_is_asked_for() {
        let mut some = tables("steps = 1");
        let keys = "classes = [3, 1, 4]\nimage_size = 16\nchannels = 3\nnormalization = 'half'";
        some["data"].as_table_mut().unwrap().extend(keys.parse::<toml::Table>().unwrap());
        let input = RunConfig::from_table(&some, &Registry::builtin()).unwrap().input();
        assert_eq!(input, InputShape { channels: 3, height: 16, width: 16, classes: 3 });
        some["data"]["image_size"] = 18.into();
        let errors = RunConfig::from_table(&some, &Registry::builtin()).unwrap_err();
        assert_eq!(errors[0].key, "model.patch_size", "{}", errors[0]);
    }

    #[test]
    fn a_network_that_cannot_be_counted_is_refused_at_its_key() {
        let mut wide = tables("steps = 1");
        wide["model"]["width"] = 4_000_000_000i64.into();
        let errors = RunConfig::from_table(&wide, &Registry::builtin()).unwrap_err();
        assert_eq!(errors[0].key, "model.width", "{}", errors[0]);
    }
}
