//! `reslab data list|fetch|verify`: data sets, where they are looked for, and whether their bytes are the published ones.

use crate::outcome::{Exit, Usage};
use crate::sources::DataOptions;
use crate::terminal::{Paint, bytes, draws_bars, note, say};
use anyhow::Result;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use reslab_data::Dataset;
use reslab_fetch::{DatasetFiles, FetchProgress, FileState, Sources, Stage, locate};

/// Arguments of `data`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// All data sets, whether they are here, and where they are looked for
    List {
        #[command(flatten)]
        data: DataOptions,
    },
    /// Get the files of a data set into the user's cache folder
    Fetch {
        /// Name of the data set: see `reslab data list`
        name: String,
        #[command(flatten)]
        data: DataOptions,
    },
    /// Compare the files of a data set with their published checksums
    Verify {
        /// Name of the data set: see `reslab data list`
        name: String,
        #[command(flatten)]
        data: DataOptions,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    match &arguments.action {
        Action::List { data } => list(&data.sources()),
        Action::Fetch { name, data } => fetch_named(name, &data.sources()),
        Action::Verify { name, data } => verify_named(name, &data.sources()),
    }
}

fn list(sources: &Sources) -> Result<Exit> {
    let paint = Paint::stdout();
    for set in &reslab_data::DATASETS {
        let place = match reslab_fetch::dataset(set.name) {
            None => paint.green("embedded in the program"),
            Some(files) => match locate(files, sources) {
                Ok(located) => paint.green(format!("here: {}", located.dir.display())),
                Err(_) => {
                    let size: u64 = files.downloads.iter().map(|download| download.bytes).sum();
                    format!("not here; `reslab data fetch {}` downloads {}", set.name, bytes(size))
                }
            },
        };
        say(format_args!("{}  {}\n    {place}\n    {}", paint.bold(set.name), set.summary, about(set)));
    }
    say("\nlooked for in:");
    for dir in sources.search() {
        say(format_args!("    {}{}", dir.display(), if dir.is_dir() { "" } else { "  (no such folder)" }));
    }
    Ok(Exit::Done)
}

fn about(set: &Dataset) -> String {
    let shape = set.shape;
    format!(
        "{} training and {} test images, {} classes; licence: {}\n    {}",
        shape.train_images, shape.test_images, shape.classes, set.licence, set.source
    )
}

/// The files of a data set; `None` where they are embedded.
fn files_of(name: &str) -> Result<Option<&'static DatasetFiles>> {
    if name == reslab_data::IMAGE_FOLDER {
        return Err(Usage::error(format!(
            "{name} is a folder of your own, which `data.root` names: there is nothing to fetch or verify"
        )));
    }
    reslab_data::dataset(name).map_err(|error| Usage::error(error.problem))?;
    Ok(reslab_fetch::dataset(name))
}

fn fetch_named(name: &str, sources: &Sources) -> Result<Exit> {
    match files_of(name)? {
        None => say(format_args!("{name} is embedded in the program")),
        Some(files) => say(format_args!("{name} is in {}", fetch_with_bar(files, sources)?.dir.display())),
    }
    Ok(Exit::Done)
}

/// Makes sure that the files of a data set are here and are the published ones; downloads are announced and shown.
///
/// # Errors
/// The three ways to get the files, or which file is not the published one.
pub(crate) fn ensure(name: &str, sources: &Sources) -> Result<()> {
    let Some(files) = files_of(name)? else { return Ok(()) };
    fetch_with_bar(files, sources).map_err(Usage::error)?;
    // Less than a second, once per sweep: a result on other data under this name would be worth nothing.
    let checks = reslab_fetch::verify(files, sources, &mut |_| {}).map_err(Usage::error)?;
    match checks.into_iter().find(|check| check.state != FileState::Intact) {
        None => Ok(()),
        Some(bad) => Err(Usage::error(format!(
            "{}: this is not the published file of {name}: {}; delete it and call `reslab data fetch {name}`",
            bad.path.display(),
            describe(&bad.state)
        ))),
    }
}

fn fetch_with_bar(
    files: &'static DatasetFiles,
    sources: &Sources,
) -> Result<reslab_fetch::Located, reslab_fetch::FetchError> {
    let mut view = FetchView::default();
    reslab_fetch::fetch(files, sources, &mut |progress| view.show(progress))
}

/// One bar per file on a terminal, one line per file elsewhere.
#[derive(Default)]
struct FetchView {
    at: Option<(String, Stage)>,
    bar: Option<ProgressBar>,
}

impl FetchView {
    fn show(&mut self, progress: FetchProgress<'_>) {
        let key = (progress.file.to_owned(), progress.stage);
        if self.at.as_ref() != Some(&key) {
            self.at = Some(key);
            self.begin(progress);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(progress.done);
            if progress.done >= progress.total {
                bar.finish_and_clear();
            }
        }
    }

    fn begin(&mut self, progress: FetchProgress<'_>) {
        let verb = match progress.stage {
            Stage::Download => "downloading",
            Stage::Check => "checking",
            Stage::Unpack => "unpacking",
        };
        if draws_bars() {
            let template = "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            let style = ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> ");
            let bar = ProgressBar::new(progress.total).with_style(style);
            bar.set_prefix(format!("{verb} {}", progress.file));
            self.bar = Some(bar);
        } else {
            note(format_args!("{verb} {} ({})", progress.file, bytes(progress.total)));
        }
    }
}

fn verify_named(name: &str, sources: &Sources) -> Result<Exit> {
    let Some(files) = files_of(name)? else {
        say(format_args!("{name} is embedded in the program and checked by its tests"));
        return Ok(Exit::Done);
    };
    let mut view = FetchView::default();
    let checks = reslab_fetch::verify(files, sources, &mut |progress| view.show(progress)).map_err(Usage::error)?;
    let paint = Paint::stdout();
    let mut exit = Exit::Done;
    for check in checks {
        let path = check.path.display();
        match check.state {
            FileState::Intact => say(format_args!("{}     {path}", paint.green("ok"))),
            state => {
                say(format_args!("{}    {path}: {}", paint.red("bad"), describe(&state)));
                exit = Exit::Failed;
            }
        }
    }
    if exit == Exit::Failed {
        note(format_args!("delete the bad files and call: reslab data fetch {name}"));
    }
    Ok(exit)
}

fn describe(state: &FileState) -> String {
    match state {
        FileState::Intact => "the published file".to_owned(),
        FileState::Differs { expected_bytes, found_bytes, .. } if expected_bytes != found_bytes => {
            format!("expected {expected_bytes} bytes, found {found_bytes}")
        }
        FileState::Differs { expected, found, .. } => format!("expected sha256 {expected}, found {found}"),
        FileState::Unreadable { offset, problem } => format!("not readable past byte {offset}: {problem}"),
    }
}
