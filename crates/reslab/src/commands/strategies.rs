//! `reslab strategies [NAME]`: the strategies of this program, or all about one.

use crate::outcome::{Exit, Usage};
use crate::terminal::{Paint, say, wrap};
use anyhow::Result;
use reslab_config::nearest;
use reslab_residual::{Registry, Variant};

/// Arguments of `strategies`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One strategy: its equation, source, parameters and an example
    name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    match &arguments.name {
        None => list(registry),
        Some(name) => show(registry.get(name).ok_or_else(|| unknown(name, registry))?),
    }
    Ok(Exit::Done)
}

fn unknown(name: &str, registry: &Registry) -> anyhow::Error {
    let names: Vec<&str> = registry.names().collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if name == "drop_path" => {
            "; drop path is an axis that is crossed with every strategy: `drop_path = { .. }`, see docs/config.md."
                .to_owned()
        }
        None => ".".to_owned(),
    };
    Usage::error(format!(
        "no strategy `{name}`{hint} Known: {} (an arm's name is not its strategy's kind)",
        names.join(", ")
    ))
}

fn list(registry: &Registry) {
    let paint = Paint::stdout();
    let longest = registry.names().map(|name| name.len()).max().unwrap_or(0);
    for variant in registry.iter() {
        let padding = " ".repeat(longest - variant.name.len());
        say(format_args!("{}{padding}  {}", paint.bold(variant.name), variant.summary));
    }
    say("\n`reslab strategies NAME` shows one's equation, source, parameters and an example");
}

fn show(variant: &Variant) {
    let paint = Paint::stdout();
    say(format_args!("{}: {}\n", paint.bold(variant.name), variant.summary));
    say(format_args!("{}\n    {}", paint.bold("equation"), variant.equation.replace('\n', "\n    ")));
    say(format_args!("{}\n    {}", paint.bold("source"), variant.source));
    say(paint.bold("parameters"));
    let keys = (variant.keys)();
    for key in &keys {
        say(format_args!("    {} ({})\n{}", key.key, key.kind, wrap(&key.meaning, 100, "        ")));
    }
    if keys.is_empty() {
        say("    none");
    }
    let example = variant.example.trim().replace('\n', "\n    ");
    say(format_args!("{}\n    {example}", paint.bold("example of [residual]")));
}
