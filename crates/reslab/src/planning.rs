//! From a sweep file and its options to a checked plan: what `sweep`, `plan`, `run` and `bench` begin with.

use crate::devices::{DeviceChoice, Devices};
use crate::environment;
use crate::outcome::Usage;
use crate::terminal::warn;
use anyhow::Result;
use reslab_config::ConfigError;
use reslab_record::{Plan, PlannedRun};
use reslab_residual::Registry;
use reslab_sweep::{Facts, Overrides, ProfileChoice, SweepFile, Target, expand, filter, load};
use reslab_train::RunConfig;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Options of every command that reads a sweep file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FileOptions {
    /// The sweep file
    pub(crate) file: PathBuf,
    /// Change a key, dotted: --set model.depth=24 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Merge this profile over the file; `none` takes the file as it stands [default: the one of the runs' device kind]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Where runs are computed: auto, cpu, cuda, or cuda:0,cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: DeviceChoice,
    /// Threads per run; part of a run's identity
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
}

/// Which of a plan's runs are meant.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Selection {
    /// Only this arm, by its name in the file or its full name (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,
    /// Only these seeds of the file
    #[arg(long, value_name = "0,1", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
}

/// Whether a plan must fit the devices of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is to be run here.
    Required,
    /// It is only to be looked at.
    Wanted,
}

/// A checked plan.
pub(crate) struct Planned {
    pub(crate) file: SweepFile,
    pub(crate) plan: Plan,
    pub(crate) devices: Devices,
    /// Why the runs can't be computed on these devices; empty where they can.
    pub(crate) unfit: Vec<ConfigError>,
}

impl FileOptions {
    /// Reads, expands and checks the file.
    ///
    /// # Errors
    /// All that is wrong with it, at once.
    pub(crate) fn plan(&self, registry: &Registry, fit: Fit) -> Result<Planned> {
        let devices = self.device.resolve()?;
        let overrides =
            Overrides { set: self.set.clone(), profile: ProfileChoice::from_option(self.profile.as_deref()) };
        let file = load(&self.file, &overrides, devices.kind).map_err(|errors| Usage::all(errors.0))?;
        let target =
            Target { device_kind: devices.kind.to_owned(), threads: self.threads, versions: environment::versions() };
        let unfit = RefCell::new(Vec::new());
        let warned: RefCell<Vec<String>> = RefCell::default();
        let check = |table: &mut toml::Table| -> Result<Facts, Vec<ConfigError>> {
            let config = RunConfig::from_table(table, registry)?;
            config.pin(table);
            match config.check_device(devices.kind) {
                Err(error) if fit == Fit::Required => return Err(vec![error]),
                Err(error) if !unfit.borrow().contains(&error) => unfit.borrow_mut().push(error),
                _ => {}
            }
            let warning = config.warning().filter(|warning| !warned.borrow().contains(warning));
            if let Some(warning) = warning {
                warn(&warning);
                warned.borrow_mut().push(warning);
            }
            let facts = config.facts().map_err(|error| vec![error])?;
            Ok(Facts { parameters: facts.parameters, flops_per_image: facts.flops_per_image })
        };
        let plan = expand(&file, &check, &target).map_err(|errors| Usage::all(errors.0))?;
        Ok(Planned { file, plan, devices, unfit: unfit.into_inner() })
    }
}

/// The runs of a plan that `selection` picks.
///
/// # Errors
/// Names an arm or a seed that is not in the plan.
pub(crate) fn pick(plan: &Plan, selection: &Selection) -> Result<Vec<PlannedRun>> {
    filter(plan, &selection.arm, &selection.seeds).map_err(|errors| Usage::all(errors.0))
}

impl Planned {
    /// The runs that `selection` picks.
    ///
    /// # Errors
    /// Names an arm or a seed that is not in the plan.
    pub(crate) fn pick(&self, selection: &Selection) -> Result<Vec<PlannedRun>> {
        pick(&self.plan, selection)
    }

    /// The sweep's folder in `out`, or in `results/`. A place of the user's own needs no hash to keep `--set` apart.
    pub(crate) fn folder(&self, out: Option<&Path>) -> PathBuf {
        let name = self.file.folder_name();
        match out {
            None => Path::new("results").join(name),
            Some(out) if self.plan.set.is_empty() => out.join(name),
            Some(out) => out.join(name.rsplit_once('+').map_or(name.as_str(), |(plain, _)| plain)),
        }
    }
}
