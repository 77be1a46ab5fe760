//! How to compute the same again, from what the records say of code, file and place.

use maud::{Markup, html};
use reslab_record::Env;
use reslab_report::Sweep;
use std::collections::BTreeSet;

/// Commands and what they need.
pub(crate) fn section(sweep: &Sweep) -> Markup {
    let envs: Vec<&Env> = sweep.runs.iter().filter_map(|run| run.env.as_ref()).collect();
    let commits: BTreeSet<&str> = envs.iter().filter_map(|env| env.git_commit.as_deref()).collect();
    let libtorch: BTreeSet<&str> = envs.iter().map(|env| env.libtorch.as_str()).collect();
    let is_dirty = envs.iter().any(|env| env.git_dirty == Some(true));
    let checkout = match commits.iter().next() {
        Some(commit) if commits.len() == 1 => format!("git checkout {}", word(commit)),
        Some(_) => "# several commits: each run's env.json names its own".to_owned(),
        None => "# the records name no commit".to_owned(),
    };
    html! {
        p {
            "The folder that this page was written into is enough: it holds the resolved configuration of every run. Called in a \
             checkout of reslab, with " code { "DIR" } " for that folder:"
        }
        (commands(&[checkout, "cargo setup".to_owned(), "cargo run -- reproduce DIR".to_owned()]))
        p {
            code { "reproduce" } " says of every run whether its records are identical, within what chance allows, or different. On \
             the CPU, with the same code, libtorch and threads, they are identical byte for byte."
        }
        p { "From the sweep file:" }
        (commands(&[sweep_command(sweep)]))
        ul {
            li { "The file had sha256 " code.break { (sweep.plan.source.sha256) } "." }
            @if !libtorch.is_empty() { li { "libtorch " (libtorch.into_iter().collect::<Vec<_>>().join(", ")) "." } }
            @if is_dirty {
                li { "The code had changes that were not committed: " code { "git apply code.diff" } " (in the folders of those runs) brings them." }
            }
        }
        p { "This page and its tables from the records again, without training:" }
        (commands(&["cargo run -- report DIR".to_owned()]))
    }
}

fn sweep_command(sweep: &Sweep) -> String {
    let plan = &sweep.plan;
    // A path of somebody's own machine is not told.
    let path = std::path::Path::new(&plan.source.path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = if path.is_absolute() { word(&name) } else { word(&plan.source.path) };
    let mut command =
        format!("cargo run -- sweep {file} --profile {}", word(plan.profile.as_deref().unwrap_or("none")));
    for change in &plan.set {
        command += &format!(" --set {}", word(change));
    }
    command + " --out NEW"
}

/// An argument of a shell, in quotes where it needs them.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:@,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn commands(lines: &[String]) -> Markup {
    let text = lines.join("\n");
    html! {
        div.commands {
            pre tabindex="0" { code { (text) } }
            button.copy type="button" hidden { "Copy" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        let cases = [("optim.lr=1e-3", "optim.lr=1e-3"), ("a b", "'a b'"), ("it's; rm", r"'it'\''s; rm'"), ("", "''")];
        for (text, want) in cases {
            assert_eq!(word(text), want);
        }
    }
}
