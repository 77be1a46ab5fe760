//! Licence expressions of crates (SPDX), read as far as crates use them.

/// Licences that a crate may be under, alone or as one of several to choose from.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether the terms of `A AND (B OR C)` can be met by licences of the list. The old `A/B` means `A OR B`.
pub(super) fn is_allowed(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let allowed = either(&mut rest)?;
    match rest {
        [] => Ok(allowed),
        [word, ..] => Err(format!("`{word}` is not expected there")),
    }
}

fn either(rest: &mut &[&str]) -> Result<bool, String> {
    let mut allowed = all(rest)?;
    while next_is(rest, "OR") {
        allowed |= all(rest)?;
    }
    Ok(allowed)
}

fn all(rest: &mut &[&str]) -> Result<bool, String> {
    let mut allowed = one(rest)?;
    while next_is(rest, "AND") {
        allowed &= one(rest)?;
    }
    Ok(allowed)
}

fn one(rest: &mut &[&str]) -> Result<bool, String> {
    if next_is(rest, "(") {
        let allowed = either(rest)?;
        return if next_is(rest, ")") { Ok(allowed) } else { Err("a bracket is not closed".to_owned()) };
    }
    let Some((name, after)) = rest.split_first().filter(|(name, _)| !["AND", "OR", "WITH", ")"].contains(*name)) else {
        return Err("a licence is missing".to_owned());
    };
    *rest = after;
    if !next_is(rest, "WITH") {
        return Ok(ALLOWED.contains(name));
    }
    let (exception, after) = rest.split_first().ok_or("an exception is missing")?;
    *rest = after;
    Ok(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()))
}

/// Takes the word if it comes next.
fn next_is(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((next, after)) if *next == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_needs_one_and_a_conjunction_all() {
        for allowed in [
            "MIT",
            "MIT/GPL-2.0-only",
            "GPL-2.0-only OR ISC",
            "(MIT OR X) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(is_allowed(allowed), Ok(true), "{allowed}");
        }
        for refused in
            ["X", "MIT AND X", "(MIT AND X) OR X", "MIT WITH X", "MIT AND (X OR Y)", "MIT AND X OR Y", "GPL-3.0-only"]
        {
            assert_eq!(is_allowed(refused), Ok(false), "{refused}");
        }
        for broken in ["", "MIT AND", "(MIT", "MIT)", "MIT ISC", "OR", "MIT WITH"] {
            assert!(is_allowed(broken).is_err(), "{broken}");
        }
    }
}
