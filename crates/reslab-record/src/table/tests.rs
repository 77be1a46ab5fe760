//! Rows that are written, cut back and read.

use super::*;
use crate::{Branch, Split, Weights};
use std::fs;

fn eval(step: u64) -> EvalRow {
    let (split, weights) = (Split::Val, Weights::Raw);
    EvalRow { step, split, weights, loss: f64::NAN, top1: 0.1 + 0.2, top5: 1.0, images: 9 }
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("evals.csv")).unwrap()
}

fn write(dir: &Path, steps: impl IntoIterator<Item = u64>) {
    let mut writer = EvalWriter::open(dir).unwrap();
    for step in steps {
        writer.append(&eval(step)).unwrap();
    }
}

#[test]
fn a_file_has_one_header_and_the_words_of_the_interface() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [0]);
    write(dir.path(), [1]);
    let row = "val,raw,NaN,0.30000000000000004,1.0,9\n";
    assert_eq!(text(dir.path()), format!("step,split,weights,loss,top1,top5,images\n0,{row}1,{row}"));
    assert_eq!(StepRow::HEADER[..5], ["step", "epoch", "loss", "lr", "grad_norm"]);
    assert_eq!(StepRow::HEADER[StepRow::HEADER.len() - 2..], ["images_per_s", "seconds"], "times come last");
}

#[test]
fn an_undefined_figure_is_an_empty_field_and_nan_is_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut row = StepRow {
        step: 3,
        epoch: 1.5,
        loss: f64::INFINITY,
        lr: 1e-5,
        grad_norm: f64::NAN,
        grad_norm_attention: None,
        grad_norm_mlp: Some(2.0),
        grad_norm_gamma: Some(f64::NAN),
        grad_norm_embedding: None,
        grad_norm_head: Some(f64::NEG_INFINITY),
        weight_update_norm: None,
        images_per_s: 1e21,
        seconds: 0.1,
    };
    let mut writer = StepWriter::open(dir.path()).unwrap();
    writer.append(&row).unwrap();
    writer.sync().unwrap();
    let text = fs::read_to_string(dir.path().join("steps.csv")).unwrap();
    assert_eq!(text.lines().nth(1).unwrap(), "3,1.5,inf,0.00001,NaN,,2.0,NaN,,-inf,,1e21,0.1");

    let read = read_rows::<StepRow>(dir.path());
    assert_eq!(read.problem, None);
    let mut back = read.rows[0].clone();
    assert!(back.grad_norm.is_nan() && back.grad_norm_gamma.is_some_and(f64::is_nan));
    (back.grad_norm, row.grad_norm) = (0.0, 0.0);
    (back.grad_norm_gamma, row.grad_norm_gamma) = (None, None);
    assert_eq!(back, row);
}

#[test]
fn every_float_is_read_back_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    // A walk over bit patterns of all sizes.
    let values: Vec<f64> = (1..2000_u64)
        .map(|i| f64::from_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .filter(|x| x.is_finite())
        .collect();
    let rows: Vec<EvalRow> = values.iter().map(|x| EvalRow { loss: *x, top1: -*x, ..eval(0) }).collect();
    EvalWriter::open(dir.path()).unwrap().append_all(&rows).unwrap();
    let read = read_rows::<EvalRow>(dir.path());
    assert_eq!(read.rows.len(), values.len());
    for (row, x) in read.rows.iter().zip(&values) {
        assert_eq!((row.loss.to_bits(), row.top1.to_bits()), (x.to_bits(), (-x).to_bits()));
    }
}

#[test]
fn cut_back_removes_the_step_and_later_ones_whatever_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [0, 10, 10, 20, 30]);
    let whole = text(dir.path());
    let want: String = whole.lines().take(4).map(|l| format!("{l}\n")).collect();
    for length in want.len()..=whole.len() {
        fs::write(dir.path().join("evals.csv"), &whole[..length]).unwrap();
        let mut writer = EvalWriter::open(dir.path()).unwrap();
        let cut = writer.cut_back(20).unwrap();
        assert_eq!((cut.kept, cut.torn), (3, None), "length {length}");
        assert_eq!(text(dir.path()), want, "length {length}");
        writer.append(&eval(20)).unwrap();
        writer.append(&eval(30)).unwrap();
        assert_eq!(text(dir.path()), whole, "length {length}: the run went on");
    }
    EvalWriter::open(dir.path()).unwrap().cut_back(0).unwrap();
    assert_eq!(text(dir.path()).lines().count(), 1, "the header stays");
    let cut = EvalWriter::open(dir.path()).unwrap().cut_back(99).unwrap();
    assert_eq!(cut, CutBack { kept: 0, removed_bytes: 0, torn: None });
}

#[test]
fn damage_before_the_step_is_cut_off_and_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [0, 10]);
    let damaged = text(dir.path()) + "2\0\0,val\n" + "30,val,raw,1.0,1.0,1.0,9\n";
    fs::write(dir.path().join("evals.csv"), damaged).unwrap();
    let read = read_rows::<EvalRow>(dir.path());
    assert_eq!(read.rows.len(), 2);
    assert!(read.problem.as_ref().is_some_and(|p| p.contains("line 4")), "{:?}", read.problem);
    let cut = EvalWriter::open(dir.path()).unwrap().cut_back(40).unwrap();
    assert_eq!(cut.kept, 2);
    assert!(cut.torn.is_some_and(|line| line.contains("val")));
}

#[test]
fn a_torn_last_line_is_left_out_even_where_it_parses() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [0, 10]);
    // Without the last digit and the line feed, "9" images could have been "96".
    fs::write(dir.path().join("evals.csv"), text(dir.path()).trim_end()).unwrap();
    let read = read_rows::<EvalRow>(dir.path());
    assert_eq!(read.rows.len(), 1);
    assert!(read.problem.is_some_and(|p| p.contains("torn")));
    write(dir.path(), [10]);
    assert_eq!(read_rows::<EvalRow>(dir.path()).problem, None, "opening cut the torn line off");
}

#[test]
fn a_torn_header_is_written_again_and_a_foreign_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evals.csv");
    for torn in ["", "step,spl", "step,split,weights,loss,top1,top5,images"] {
        fs::write(&path, torn).unwrap();
        write(dir.path(), [5]);
        assert_eq!(read_rows::<EvalRow>(dir.path()).rows.len(), 1, "{torn:?}");
    }
    fs::write(&path, "step,accuracy\n1,0.5\n").unwrap();
    let error = EvalWriter::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("evals.csv") && error.contains("found step,accuracy"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "step,accuracy\n1,0.5\n", "and nothing is overwritten");
}

#[test]
fn layers_are_read_packed_too_and_a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = read_rows::<LayerRow>(dir.path());
    assert_eq!(missing.problem.as_deref(), Some("layers.csv: missing"));
    let csv = "step,block,branch,ratio,unknown\n0,3,mlp,0.5,7\n0,3,attention,,8\n";
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(csv.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    fs::write(dir.path().join("layers.csv.gz"), &packed).unwrap();
    let read = read_rows::<LayerRow>(dir.path());
    assert_eq!(read.problem, None, "columns of other versions are no damage");
    assert_eq!((read.rows[0].branch, read.rows[0].ratio, read.rows[1].ratio), (Branch::Mlp, Some(0.5), None));
    fs::write(dir.path().join("layers.csv.gz"), &packed[..packed.len() - 9]).unwrap();
    assert!(read_rows::<LayerRow>(dir.path()).problem.is_some_and(|p| p.contains("damaged")));
}

#[test]
fn a_file_that_others_changed_while_it_was_written_is_told() {
    type Change = (&'static str, fn(&Path));
    let changes: [Change; 4] = [
        ("is gone", |path| fs::remove_file(path).unwrap()),
        ("holds", |path| File::options().write(true).open(path).unwrap().set_len(60).unwrap()),
        ("holds", |path| File::options().append(true).open(path).unwrap().write_all(b"5,val\n").unwrap()),
        ("is another file", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path.with_extension("new"), bytes).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
    ];
    for (told, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), [0, 10, 20]);
        let mut writer = EvalWriter::open(dir.path()).unwrap();
        writer.cut_back(20).unwrap();
        writer.append(&eval(20)).unwrap();
        writer.sync().unwrap();
        change(&dir.path().join("evals.csv"));
        let error = writer.sync().unwrap_err().to_string();
        assert!(error.contains("evals.csv") && error.contains(told), "{error}");
    }
}
