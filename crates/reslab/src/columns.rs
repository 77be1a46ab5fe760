//! A small table for the terminal: words to the left, numbers to the right.

/// Lines of aligned cells; columns whose head starts with `>` are set to the right.
pub(crate) fn columns(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let right: Vec<bool> = heads.iter().map(|head| head.starts_with('>')).collect();
    let heads: Vec<String> = heads.iter().map(|head| head.trim_start_matches('>').to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain([&heads[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().zip(&widths).zip(&right).map(|((cell, width), right)| {
                if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&heads).chain(rows).map(line).collect()
}

/// `21,315,850`.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows = vec![vec!["plain".to_owned(), "7".to_owned()], vec!["x".to_owned(), "1234".to_owned()]];
        assert_eq!(columns(&["arm", ">n"], &rows), ["arm       n", "plain     7", "x      1234"]);
    }

    #[test]
    fn digits_come_in_threes() {
        assert_eq!(
            ["0", "999", "1,000", "21,315,850"],
            [0, 999, 1000, 21_315_850].map(thousands).each_ref().map(String::as_str)
        );
    }
}
