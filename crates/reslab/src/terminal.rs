//! Words on the terminal: colour only where a person sees it, and output that survives a closed pipe.

use std::env;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

/// Colours one stream's text, or leaves it alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For standard output.
    pub(crate) fn stdout() -> Self {
        Self { on: std::io::stdout().is_terminal() && wanted() }
    }

    /// For standard error.
    pub(crate) fn stderr() -> Self {
        Self { on: std::io::stderr().is_terminal() && wanted() }
    }

    /// Headings and names.
    pub(crate) fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    /// Errors.
    pub(crate) fn red(self, text: impl Display) -> String {
        self.wrap("1;31", text)
    }

    /// What works.
    pub(crate) fn green(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// Warnings.
    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// https://no-color.org: any value but an empty one turns colour off; so does a terminal that has none.
fn wanted() -> bool {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether progress is drawn as bars: a person watches standard error.
pub(crate) fn draws_bars() -> bool {
    std::io::stderr().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether a whole screen can be drawn: a person watches standard output.
pub(crate) fn draws_screens() -> bool {
    std::io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Why a result did not reach standard output.
static UNSAID: OnceLock<String> = OnceLock::new();

/// A result, to standard output. A reader that went away (`| head`) is no error; all else is told by [`unsaid`].
pub(crate) fn say(text: impl Display) {
    is_said(text);
}

/// The same; whether there is somebody who reads it.
pub(crate) fn is_said(text: impl Display) -> bool {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{text}").and_then(|()| out.flush());
    if let Err(e) = &said
        && e.kind() != ErrorKind::BrokenPipe
    {
        UNSAID.get_or_init(|| e.to_string());
    }
    said.is_ok()
}

/// Why results did not reach standard output, where they did not: its disk is full, or it is closed.
pub(crate) fn unsaid() -> Option<&'static str> {
    UNSAID.get().map(String::as_str)
}

/// What happens, to standard error: results alone stay on standard output.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A warning, to standard error.
pub(crate) fn warn(text: impl Display) {
    note(format_args!("{} {text}", Paint::stderr().yellow("warning:")));
}

/// An error, to standard error.
pub(crate) fn error(text: impl Display) {
    note(format_args!("{} {text}", Paint::stderr().red("error:")));
}

/// `text` in lines of at most `width` characters, each behind `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Bytes as a person says them.
pub(crate) fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        c if c < 1e6 => format!("{:.0} kB", c / 1e3),
        c if c < 1e9 => format!("{:.1} MB", c / 1e6),
        c => format!("{:.1} GB", c / 1e9),
    }
}

/// A large number with a magnitude: `12.3 G`.
pub(crate) fn magnitude(value: f64) -> String {
    let steps = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.2} {unit}", value / size),
        None => format!("{value:.0} "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_without_losing_a_word_and_never_past_the_width() {
        let text = "one two three four five six seven";
        let wrapped = wrap(text, 14, "# ");
        assert!(wrapped.lines().all(|line| line.len() <= 14 && line.starts_with("# ")), "{wrapped}");
        assert_eq!(wrapped.replace("# ", "").replace('\n', " "), text);
    }
}
