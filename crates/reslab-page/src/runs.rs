//! The runs: a table of all, and a part of the page for each with its configuration, environment, events and log.

use maud::{Markup, html};
use reslab_record::{Env, Outcome};
use reslab_report::{Finished, Metric, Run, Status, Sweep, Table};

use crate::curves::Arm;
use crate::records::{Records, SpikeEpisode};
use crate::tables::linked;

/// Figures of a run that the table of runs shows.
const NONE: &str = "-";

/// The table of all runs.
pub(crate) fn overview(sweep: &Sweep, table: &Table, arms: &[Arm]) -> Markup {
    let metrics = metrics(table);
    let mut header = vec!["arm".to_owned(), "seed".to_owned(), "outcome".to_owned()];
    header.extend(
        metrics
            .iter()
            .map(|metric| if metric.is_accuracy() { format!("{} %", metric.name()) } else { metric.name().to_owned() }),
    );
    header.extend(["final loss", "max grad norm", "loss spikes", "gradient spikes"].map(str::to_owned));
    let rows: Vec<Vec<String>> = sweep.runs.iter().map(|run| row(run, &metrics)).collect();
    let links: Vec<String> = sweep.runs.iter().map(anchor).collect();
    linked("All runs", &header, &rows, arms, &links)
}

fn metrics(table: &Table) -> Vec<Metric> {
    table.rows.first().map_or(Vec::new(), |row| row.metrics.iter().map(|(metric, _)| metric.clone()).collect())
}

fn row(run: &Run, metrics: &[Metric]) -> Vec<String> {
    let mut cells = vec![run.planned.arm.clone(), run.planned.seed.to_string(), outcome(run).to_owned()];
    let finished = run.finished();
    cells.extend(metrics.iter().map(|metric| {
        let score = finished.and_then(|finished| finished.done.metrics.get(metric.name()).copied());
        score.map_or(NONE.to_owned(), |score| show(metric, score))
    }));
    let figure =
        |figure: fn(&Finished) -> Option<f64>| finished.and_then(figure).map_or(NONE.to_owned(), |x| format!("{x:.4}"));
    cells.push(figure(|f| f.final_loss));
    cells.push(figure(|f| f.largest_grad_norm));
    let count = |of: fn(&Finished) -> usize| finished.map_or(NONE.to_owned(), |f| of(f).to_string());
    cells.push(count(|f| f.spike_episodes.len()));
    cells.push(count(|f| f.grad_spike_episodes.len()));
    cells
}

/// As recorded: a diverged run's own figure, not the chance that the comparison scores it with.
fn show(metric: &Metric, score: f64) -> String {
    if metric.is_accuracy() { format!("{:.2}", 100.0 * score) } else { format!("{score:.4}") }
}

fn outcome(run: &Run) -> &'static str {
    match &run.status {
        Status::Done(f) if f.non_finite => "not finite",
        Status::Done(f) if f.diverged => "diverged",
        Status::Done(f) if f.not_trained => "not trained",
        Status::Done(_) => "finished",
        Status::Failed(_) => "failed",
        Status::Unfinished => "no result yet",
    }
}

/// The name of a run's part of the page.
fn anchor(run: &Run) -> String {
    let letters = run.planned.folder.rsplit('/').next().unwrap_or_default().chars();
    let name: String = letters.map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    format!("run-{name}")
}

/// All that is known of one run, folded.
pub(crate) fn details(run: &Run, records: &Records) -> Markup {
    let outcome = outcome(run);
    let problems: Vec<&String> = run.problems.iter().chain(&records.problems).collect();
    html! {
        details.run id=(anchor(run)) {
            summary {
                span.name { (run.planned.arm) " " span.soft { "seed " (run.planned.seed) } }
                span class={ "outcome " (outcome.replace(' ', "-")) } { (outcome) }
                @if !problems.is_empty() { span.outcome.damaged { "records incomplete" } }
            }
            div.inside {
                @if !problems.is_empty() {
                    h3 { "Missing or damaged" }
                    ul { @for problem in problems { li { (problem) } } }
                }
                h3 { "Stability" }
                ul.events { @for event in events(run, records) { li { (event) } } }
                @if let Some(finished) = run.finished() {
                    h3 { "Result" }
                    (pairs(&results(run, finished)))
                }
                h3 { "Environment" }
                (environment(run))
                h3 { "Configuration" }
                (config(run, records))
                h3 { "End of the log" }
                (log(records))
                p.soft { "Folder " code.break { (run.planned.folder) } ", id " code.break { (run.planned.id) } "." }
            }
        }
    }
}

/// What happened to a run that has to do with its stability.
fn events(run: &Run, records: &Records) -> Vec<String> {
    let mut events = Vec::new();
    match &run.status {
        Status::Unfinished => events.push(match records.last_step {
            Some(step) => format!("No result yet; steps up to {step} are recorded."),
            None => "Not begun, or no step is recorded.".to_owned(),
        }),
        Status::Failed(failed) => {
            let message = failed.message.lines().next().unwrap_or_default();
            events.push(format!("Failed without a result: {}: {message}", failed.class));
        }
        Status::Done(finished) => events.extend(verdict(finished)),
    }
    let [loss, grad_norm] = &records.spikes;
    events.extend(loss.iter().map(|spike| spike_event("Training loss", spike)));
    events.extend(grad_norm.iter().map(|spike| spike_event("Gradient norm", spike)));
    if let Some(micro_batches) = run.finished().and_then(|f| f.done.micro_batches) {
        events.push(format!("Memory ran out: computed in {micro_batches} micro-batches per batch."));
    }
    if !run.earlier_envs.is_empty() {
        events.push("Continued by other code or on another device than began it.".to_owned());
    }
    if events.is_empty() {
        events.push("Nothing: it stayed finite, did not diverge and had no spike.".to_owned());
    }
    events
}

fn verdict(finished: &Finished) -> Option<String> {
    if let Outcome::NonFinite { step } = finished.done.outcome {
        return Some(format!(
            "Diverged: loss or gradient norm was not finite at step {step}, and the run ended there."
        ));
    }
    match finished {
        f if f.non_finite => Some("Diverged: the loss was not finite in evaluation.".to_owned()),
        f if f.diverged => Some("Diverged: the training loss stayed above that of step 0.".to_owned()),
        f if f.not_trained => {
            Some("Not trained: its final loss is that of a network that has learned nothing.".to_owned())
        }
        _ => None,
    }
}

fn spike_event(what: &str, spike: &SpikeEpisode) -> String {
    let SpikeEpisode { first, last, episode } = spike;
    let steps = if first == last { format!("at step {first}") } else { format!("at steps {first} to {last}") };
    let recovery = match episode.steps_to_recover {
        Some(1) => "back after 1 step".to_owned(),
        Some(steps) => format!("back after {steps} steps"),
        None => "not back to the run's end".to_owned(),
    };
    format!("{what} spiked {steps}: {:.3} above the mean of the 128 values before, {recovery}.", episode.size)
}

fn results(run: &Run, finished: &Finished) -> Vec<(String, String)> {
    let figure = |(name, score): (&String, &f64)| {
        let metric = Metric::new(name.as_str());
        let unit = if metric.is_accuracy() { " %" } else { "" };
        (name.clone(), show(&metric, *score) + unit)
    };
    let mut pairs: Vec<(String, String)> = finished.done.metrics.iter().map(figure).collect();
    pairs.push(("steps".to_owned(), finished.done.steps.to_string()));
    pairs.push(("parameters".to_owned(), finished.done.parameters.to_string()));
    if let Some(rate) = finished.done.effective_drop_rate {
        pairs.push(("effective drop rate".to_owned(), rate.to_string()));
    }
    if let Some(timing) = &run.timing {
        pairs.push(("wall time".to_owned(), format!("{:.0} s", timing.seconds)));
        pairs.push(("images/s".to_owned(), format!("{:.0}", timing.images_per_s)));
        pairs.push(("peak memory".to_owned(), format!("{} MiB", timing.peak_memory_bytes >> 20)));
    }
    pairs
}

fn environment(run: &Run) -> Markup {
    let Some(env) = &run.env else { return html! { p { "No env.json is recorded." } } };
    let text = |text: &Option<String>| text.clone().unwrap_or("not recorded".to_owned());
    let changes = match env.git_dirty {
        Some(true) => "uncommitted (code.diff)",
        Some(false) => "none",
        None => "not recorded",
    };
    let Env { reslab, libtorch, device, threads, deterministic, .. } = env;
    let mut list = vec![
        ("reslab".to_owned(), reslab.clone()),
        ("libtorch".to_owned(), libtorch.clone()),
        ("commit".to_owned(), text(&env.git_commit)),
        ("changes".to_owned(), changes.to_owned()),
        ("device".to_owned(), device.clone()),
        ("device name".to_owned(), text(&env.device_name)),
        ("threads".to_owned(), threads.to_string()),
        ("deterministic".to_owned(), if *deterministic { "asked for" } else { "not asked for" }.to_owned()),
    ];
    list.extend(env.driver.clone().map(|driver| ("driver".to_owned(), driver)));
    pairs(&list)
}

fn config(run: &Run, records: &Records) -> Markup {
    let planned = || toml::to_string(&run.planned.config).unwrap_or_default();
    let text = records.config.clone().unwrap_or_else(planned);
    html! { pre tabindex="0" { code { (text.trim()) } } }
}

fn log(records: &Records) -> Markup {
    let Some((text, has_more)) = &records.log else { return html! { p { "No log.txt is recorded." } } };
    html! { pre tabindex="0" { code { @if *has_more { "...\n" } (text) } } }
}

fn pairs(pairs: &[(String, String)]) -> Markup {
    html! { dl.facts { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } } }
}
