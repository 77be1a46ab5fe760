//! The CSV files: torn, odd, arbitrary.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use reslab_record::{Branch, EvalRow, EvalWriter, LayerRow, Row, RowWriter, Split, StepRow, Weights, read_rows};

use super::cases;

/// All floats, those that are no numbers included.
fn float() -> impl Strategy<Value = f64> {
    let odd = vec![0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE / 8.0, f64::MAX, 1e21];
    prop_oneof![proptest::sample::select(odd), any::<f64>()]
}

fn maybe() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(float())
}

fn eval() -> impl Strategy<Value = EvalRow> {
    let words = (any::<bool>(), any::<bool>());
    (any::<u64>(), words, float(), float(), float(), any::<u64>()).prop_map(
        |(step, (val, raw), loss, top1, top5, images)| {
            let split = if val { Split::Val } else { Split::Test };
            let weights = if raw { Weights::Raw } else { Weights::Ema };
            EvalRow { step, split, weights, loss, top1, top5, images }
        },
    )
}

fn step() -> impl Strategy<Value = StepRow> {
    (any::<u64>(), vec(float(), 6), vec(maybe(), 6)).prop_map(|(step, f, m)| StepRow {
        step,
        epoch: f[0],
        loss: f[1],
        lr: f[2],
        grad_norm: f[3],
        grad_norm_attention: m[0],
        grad_norm_mlp: m[1],
        grad_norm_gamma: m[2],
        grad_norm_embedding: m[3],
        grad_norm_head: m[4],
        weight_update_norm: m[5],
        images_per_s: f[4],
        seconds: f[5],
    })
}

fn layer() -> impl Strategy<Value = LayerRow> {
    (any::<u64>(), any::<u64>(), any::<bool>(), vec(maybe(), 16)).prop_map(|(step, block, mlp, m)| LayerRow {
        step,
        block,
        branch: if mlp { Branch::Mlp } else { Branch::Attention },
        residual_rms: m[0],
        branch_rms: m[1],
        update_rms: m[2],
        ratio: m[3],
        ratio_p10: m[4],
        ratio_p90: m[5],
        cosine: m[6],
        gamma_mean: m[7],
        gamma_rms: m[8],
        gamma_abs: m[9],
        gamma_min: m[10],
        gamma_max: m[11],
        gamma_flipped: m[12],
        gate_mean: m[13],
        gate_std: m[14],
        gate_saturated: m[15],
    })
}

/// Rows as text, in which NaN equals NaN, and -0 is not 0.
fn text<R: std::fmt::Debug>(rows: &[R]) -> Vec<String> {
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// Writes rows, reads them, cuts the file, reads what is left, and goes on writing.
fn survives<R: Row + std::fmt::Debug>(rows: &[R], at: &prop::sample::Index) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(R::FILE);
    RowWriter::<R>::open(dir.path()).unwrap().append_all(rows).unwrap();
    let whole = read_rows::<R>(dir.path());
    prop_assert_eq!((text(&whole.rows), whole.problem), (text(rows), None));

    let bytes = fs::read(&path).unwrap();
    let cut = at.index(bytes.len());
    fs::write(&path, &bytes[..cut]).unwrap();
    let rest = read_rows::<R>(dir.path());
    let whole_lines = bytes[..cut].iter().filter(|b| **b == b'\n').count();
    prop_assert_eq!(text(&rest.rows), text(&rows[..whole_lines.saturating_sub(1)]), "cut at {}", cut);
    prop_assert_eq!(rest.problem.is_some(), bytes[..cut].last().is_some_and(|b| *b != b'\n'), "cut at {}", cut);

    let kept = rest.rows.len();
    RowWriter::<R>::open(dir.path()).unwrap().append_all(&rows[kept..]).unwrap();
    prop_assert_eq!(fs::read(&path).unwrap(), bytes, "and the rest was written again");
    Ok(())
}

/// Reads and cuts back whatever stands in the file. What is left has no row of the step or a later one.
fn bears<R: Row + std::fmt::Debug>(dir: &Path, bytes: &[u8], step: u64) {
    fs::write(dir.join(R::FILE), bytes).unwrap();
    let _ = read_rows::<R>(dir);
    let Ok(mut writer) = RowWriter::<R>::open(dir) else { return };
    let cut = writer.cut_back(step).unwrap();
    let left = read_rows::<R>(dir);
    assert_eq!((left.problem, left.rows.len() as u64), (None, cut.kept));
    assert!(left.rows.iter().all(|row| row.step() < step), "{:?}", left.rows);
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn rows_of_all_files_come_back_and_survive_a_cut_anywhere(
        evals in vec(eval(), 0..4), steps in vec(step(), 0..4), layers in vec(layer(), 0..4), at in any::<prop::sample::Index>()
    ) {
        survives(&evals, &at)?;
        survives(&steps, &at)?;
        survives(&layers, &at)?;
    }

    #[test]
    fn any_bytes_behind_a_header_are_borne(
        lines in vec(prop_oneof!["[0-9,.\"\r;a-z-]{0,40}", "[0-9]{1,3},(val|test),(raw|ema),[0-9.]{1,3},1.0,0.5,[0-9]{1,4}"], 0..6),
        noise in vec(any::<u8>(), 0..20), step in 0..50_u64
    ) {
        let dir = tempfile::tempdir().unwrap();
        let header = EvalRow::HEADER.join(",");
        let bytes = [header.as_bytes(), b"\n", lines.join("\n").as_bytes(), b"\n", &noise].concat();
        bears::<EvalRow>(dir.path(), &bytes, step);
        bears::<StepRow>(dir.path(), &bytes, step);
        bears::<LayerRow>(dir.path(), &noise, step);
        fs::remove_file(dir.path().join(LayerRow::FILE)).unwrap();
        fs::write(dir.path().join("layers.csv.gz"), &noise).unwrap();
        let _ = read_rows::<LayerRow>(dir.path());
    }
}

#[test]
fn an_empty_file_is_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("evals.csv"), "").unwrap();
    assert!(EvalWriter::open(dir.path()).is_ok() && read_rows::<EvalRow>(dir.path()).rows.is_empty());
}
