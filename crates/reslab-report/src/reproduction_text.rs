//! A reproduction for people and for programs.

use crate::cell::{self, Style};
use crate::reproduction::{ArmPair, Cell, Equality, Pair, Reproduction, Verdict};
use crate::section::{Section, title_of};
use crate::stats::Summary;
use crate::text::{escape_markdown, markdown, terminal, wrap};

/// How the verdicts come about.
const LEGEND: [&str; 4] = [
    "equal: \"records\" where all records have equal bytes but for columns of times; \"metrics\" where all metrics, the \
     number of steps and the final loss are equal to the last bit. Such runs are identical.",
    "Else chance is what another rounding can do, at worst that of another seed: a difference of two runs has at most twice \
     the variance of the arm over its seeds (as recorded or anew, the smaller; or of the median arm, where that is larger), and \
     for accuracies 2 p (1 - p) / images more. \"within interval\": no more than that. \"different\": more, by Student's t (of the \
     seeds, and at most 2 degrees of freedom from other arms) at p = .05 after Holm's correction over all runs and arms that were judged.",
    "An arm's mean is judged likewise; from three seeds on also by a paired t test, which finds differences that are small \
     but always the same. \"difference\" is new - recorded, paired by seed, with its 95 % t interval (for n = 2 the range, in brackets).",
    "Runs that diverged are compared by that alone: one that does so only once is different, unless recorded seeds of its arm \
     went either way. With one seed of every arm only the noise of the test images is known, which is too little where \
     training is chaotic, and losses are not judged.",
];

impl Reproduction {
    /// What it comes to, in one line.
    pub fn conclusion(&self) -> String {
        let count = |equality| self.cells.iter().filter(|cell| cell.equality == equality).count();
        let (records, metrics, all) = (count(Equality::Records), count(Equality::Metrics), self.cells.len());
        let missing = self.cells.iter().filter(|cell| cell.metric.verdict == Verdict::NotDone).count();
        let different = self.different();
        let mut parts = vec![format!("{records} of {all} runs have equal records")];
        if metrics > 0 {
            parts.push(format!("{metrics} more have equal metrics"));
        }
        if missing > 0 {
            parts.push(format!("{missing} have no new result"));
        }
        let rest = all - records - metrics - missing;
        if rest > 0 && different.is_empty() {
            let s = if rest == 1 { "s" } else { "" };
            parts.push(format!("{rest} differ{s} by no more than chance allows"));
        }
        let word = match (missing, different.is_empty()) {
            (_, false) => "Not reproduced",
            (0, true) => "Reproduced",
            (_, true) => "Not reproduced yet",
        };
        let which = if different.is_empty() { String::new() } else { format!("; different: {}", different.join(", ")) };
        format!("{word}: {}{which}.", parts.join(", "))
    }

    /// The runs and arms that differ, with the figure.
    fn different(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut look = |who: String, metric: &Pair, loss: &Pair| {
            let named = [(metric, self.metric.name()), (loss, "final loss")];
            let which: Vec<&str> =
                named.iter().filter(|(pair, _)| pair.verdict == Verdict::Different).map(|(_, name)| *name).collect();
            if !which.is_empty() {
                found.push(format!("{who} ({})", which.join(", ")));
            }
        };
        self.cells.iter().for_each(|cell| look(format!("{} s{}", cell.arm, cell.seed), &cell.metric, &cell.final_loss));
        self.arms.iter().for_each(|arm| look(format!("mean of {}", arm.arm), &arm.metric, &arm.final_loss));
        found
    }

    /// Aligned for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}, reproduced\n", self.name);
        for section in self.sections() {
            text += &terminal(&section);
        }
        let origins = self.origins.iter().map(|(word, what)| format!("{word}: {what}."));
        for line in origins.chain(self.notes.iter().cloned()).chain([self.conclusion()]) {
            text += &format!("\n{}", wrap(&line));
        }
        text
    }

    /// Markdown that stands by itself.
    pub fn to_markdown(&self) -> String {
        let mut text =
            format!("# {}, reproduced\n\n{}\n\n", escape_markdown(&self.name), escape_markdown(&self.conclusion()));
        let list = |lines: &[String]| -> String {
            lines.iter().map(|line| format!("- {}\n", escape_markdown(line))).collect()
        };
        text += &list(&self.origins.iter().map(|(word, what)| format!("{word}: {what}")).collect::<Vec<_>>());
        for section in self.sections() {
            text += &format!("\n## {}\n\n{}", section.title, markdown(&section));
        }
        if !self.notes.is_empty() {
            text += &format!("\n## Notes\n\n{}", list(&self.notes));
        }
        text + &format!("\n## How to read it\n\n{}", list(&LEGEND.map(str::to_owned)))
    }

    fn sections(&self) -> [Section; 2] {
        let title = |of: &str| format!("{of}: {} and final loss", title_of(&self.metric));
        let header = ["run", "equal", "recorded", "new", "verdict", "recorded loss", "new loss", "loss verdict"];
        let mut runs = Section::new(&title("Runs"), header.map(str::to_owned));
        runs.rows = self.cells.iter().map(|cell| self.cell_row(cell)).collect();
        let header = ["arm", "n", "recorded", "new", "difference", "verdict", "loss difference", "loss verdict"];
        let mut arms = Section::new(&title("Means of arms"), header.map(str::to_owned));
        arms.rows = self.arms.iter().map(|arm| self.arm_row(arm)).collect();
        [runs, arms]
    }

    fn cell_row(&self, cell: &Cell) -> Vec<String> {
        let (metric, loss) = (&cell.metric, &cell.final_loss);
        let mut row = vec![format!("{} s{}", cell.arm, cell.seed), equality(cell.equality).to_owned()];
        for (pair, style) in [(metric, Style::of(&self.metric)), (loss, Style::LOSS)] {
            row.extend([show(pair.recorded, style), show(pair.reproduced, style), verdict(pair.verdict).to_owned()]);
        }
        row
    }

    fn arm_row(&self, arm: &ArmPair) -> Vec<String> {
        let style = Style::of(&self.metric);
        vec![
            arm.arm.clone(),
            arm.metric_difference.map_or(0, |d| d.n).to_string(),
            show(arm.metric.recorded, style),
            show(arm.metric.reproduced, style),
            cell::short(arm.metric_difference.as_ref(), style.signed()),
            of_arm(&arm.metric).to_owned(),
            cell::short(arm.final_loss_difference.as_ref(), Style::LOSS.signed()),
            of_arm(&arm.final_loss).to_owned(),
        ]
    }

    /// One row per figure of every run, then of every arm's mean (whose seed is empty); all digits.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut put = |row: [String; 12]| writer.write_record(row).expect("a vector can be written");
        let header = [
            "arm",
            "seed",
            "figure",
            "n",
            "recorded",
            "new",
            "difference",
            "low",
            "high",
            "p",
            "p_adjusted",
            "verdict",
        ];
        put(header.map(str::to_owned));
        let (metric, loss) = (self.metric.name(), "final_loss");
        for cell in &self.cells {
            for (figure, pair) in [(metric, &cell.metric), (loss, &cell.final_loss)] {
                let word = match (pair.verdict, cell.equality) {
                    (Verdict::Identical, Equality::Metrics) => "identical metrics",
                    (Verdict::Identical, _) => "identical records",
                    (other, _) => verdict(other),
                };
                put(csv_row((&cell.arm, &cell.seed.to_string(), figure), pair, None, word));
            }
        }
        for arm in &self.arms {
            let figures =
                [(metric, &arm.metric, &arm.metric_difference), (loss, &arm.final_loss, &arm.final_loss_difference)];
            for (figure, pair, difference) in figures {
                put(csv_row((&arm.arm, "", figure), pair, difference.as_ref(), of_arm(pair)));
            }
        }
        String::from_utf8(writer.into_inner().expect("a vector can be written")).expect("fields are text")
    }
}

fn csv_row(who: (&str, &str, &str), pair: &Pair, difference: Option<&Summary>, word: &str) -> [String; 12] {
    let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
    let n = difference.map_or(1, |d| d.n);
    let mean = pair.recorded.zip(pair.reproduced).map(|(a, b)| b - a);
    let (low, high) = (difference.and_then(|d| d.low), difference.and_then(|d| d.high));
    let (p, adjusted) = (number(pair.p), number(pair.adjusted));
    let numbers = [pair.recorded, pair.reproduced, mean, low, high].map(number);
    let [recorded, new, mean, low, high] = numbers;
    let (arm, seed, figure) = (who.0.to_owned(), who.1.to_owned(), who.2.to_owned());
    [arm, seed, figure, n.to_string(), recorded, new, mean, low, high, p, adjusted, word.to_owned()]
}

fn show(x: Option<f64>, style: Style) -> String {
    x.map_or(cell::NONE.to_owned(), |x| style.show(x))
}

fn equality(equality: Equality) -> &'static str {
    match equality {
        Equality::Records => "records",
        Equality::Metrics => "metrics",
        Equality::None => cell::NONE,
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "identical",
        Verdict::Within => "within interval",
        Verdict::Different => "different",
        Verdict::NotJudged => "not judged",
        Verdict::NotDone => "no new result",
    }
}

/// An arm of one seed is judged in its run.
fn of_arm(pair: &Pair) -> &'static str {
    if pair.verdict == Verdict::NotJudged { cell::NONE } else { verdict(pair.verdict) }
}
