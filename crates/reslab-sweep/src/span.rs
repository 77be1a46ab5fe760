//! Times as a person says them.

/// A time for people: `45 s`, `12 min 30 s`, `1 h 5 min`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 10.0 => format!("{:.1} s", seconds.max(0.0)),
        (0, 0, s) => format!("{s} s"),
        (0, min, 0) => format!("{min} min"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        let told = [0.04, 9.96, 45.2, 60.0, 750.0, 3900.0].map(span);
        assert_eq!(told, ["0.0 s", "10.0 s", "45 s", "1 min", "12 min 30 s", "1 h 5 min"]);
    }
}
