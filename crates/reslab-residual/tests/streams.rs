//! Special values of joins that mix streams: sums of mixing matrices, and what stands at step 0.

mod common;

use common::{largest_difference, normal};
use reslab_residual::variants::mhc::sinkhorn;
use reslab_residual::{Registry, start};
use tch::Kind;

#[test]
fn rows_and_columns_of_a_mixing_matrix_sum_to_one() {
    let logits = normal("logits", &[5, 3, 4, 4]);
    let off = |iterations: i64, dim: i64| {
        let sums = sinkhorn(&logits, iterations).sum_dim_intlist([dim].as_slice(), false, Kind::Double);
        largest_difference(&sums, &sums.ones_like())
    };
    assert!(off(20, -1) < 1e-14, "rows come last");
    assert!(off(20, -2) < 1e-5, "columns have settled: {}", off(20, -2));
    assert!(off(1, -2) > 1e-2, "control: after one round they have not");
    assert!(off(0, -1) > 0.1, "control: without any the sums are others");
}

/// What `reslab strategies` prints of the first block at step 0: y = a x + b f(x) (means over streams, where there are more).
#[test]
fn joins_start_as_their_files_say() {
    let of = |table: &str, block| {
        let strategy = Registry::builtin().parse(&table.parse().unwrap()).unwrap();
        start(&*strategy, block, 12).unwrap()
    };
    let mhc = "kind = 'mhc'\nstreams = 3\niterations = 20\nscale = 0.01\nmixing";
    let x0 = "kind = 'x0_lambda'\nresidual_first = 1.15\nresidual_last = 1.05\nembedding_first = 0.2\nembedding_last";
    for (table, block, residual, branch) in [
        ("kind = 'hyper_connections'\nstreams = 4\ndynamic = true\nscale = 0.01", 5, 1.0, 1.0),
        ("kind = 'hyper_connections'\nstreams = 1\ndynamic = false\nscale = 0.0", 5, 1.0, 1.0),
        (&format!("{mhc} = 0.1"), 2, 1.0, 1.0),
        (&format!("{mhc} = 1.0"), 0, 1.0, 1.0),
        ("kind = 'attention_residuals'", 0, 0.5, 0.5),
        ("kind = 'laurel'\nrank = 4\nweights = 'free'", 0, 1.0, 1.0),
        ("kind = 'laurel'\nrank = 4\nweights = 'softmax'", 0, 1.0, 1.0),
        ("kind = 'value_residual'\nfirst = 0.5\nown = 0.5\nlearned = true", 3, 1.0, 1.0),
        // The residual that a join is tried with is the embedding.
        (&format!("{x0} = 0.05"), 0, 1.35, 1.0),
        (&format!("{x0} = 0.05"), 11, 1.1, 1.0),
    ] {
        let found = of(table, block);
        let near = (found.residual - residual).abs() < 1e-9 && (found.branch - branch).abs() < 1e-9;
        assert!(near && found.rest < 1e-9, "{table}: {found:?}");
    }
    let delta = of("kind = 'deep_delta'\ninitial_beta = 0.1\nvalue_scale = 4.0", 0);
    assert!((delta.residual - 1.0).abs() < 0.1 && delta.rest > 1e-3, "no such sum: {delta:?}");
}
