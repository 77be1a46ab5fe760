//! The attention kernel against libtorch's own in double precision: values, gradients, threads, numbers out of range.

use reslab_torch::{attention, set_threads};
use tch::{Device, Kind, Tensor};

/// Images, tokens, heads, width of a head: whole vectors and not, one block of rows and several, a single token.
const SHAPES: [[i64; 4]; 8] = [
    [2, 50, 2, 32],
    [1, 1, 1, 1],
    [3, 7, 3, 5],
    [2, 8, 1, 8],
    [1, 96, 2, 16],
    [1, 97, 2, 64],
    [2, 200, 1, 24],
    [0, 5, 2, 8],
];

fn drawn(shape: [i64; 4], std: f64) -> Tensor {
    tch::manual_seed(3);
    let [b, n, h, e] = shape;
    Tensor::randn([b, n, 3 * h * e], (Kind::Double, Device::Cpu)) * std
}

/// Output, and gradient of a weighted sum of it whose weights differ everywhere.
fn output_and_gradient(qkv: &Tensor, heads: i64) -> [Tensor; 2] {
    let qkv = qkv.detach().set_requires_grad(true);
    let out = attention(&qkv, heads);
    let numbers = Tensor::arange(out.numel() as i64, (Kind::Double, Device::Cpu));
    let weights = (numbers * 0.7 + 0.5).sin().view_as(&out).to_kind(out.kind());
    (&out * weights).sum(out.kind()).backward();
    [out.detach(), qkv.grad()]
}

fn error(ours: &Tensor, exact: &Tensor) -> f64 {
    let scale = exact.abs().max().double_value(&[]);
    (ours.to_kind(Kind::Double) - exact).abs().max().double_value(&[]) / scale
}

#[test]
fn values_and_gradients_are_those_of_libtorch_in_double_precision() {
    for shape in SHAPES.into_iter().filter(|shape| shape[0] > 0) {
        for std in [1.0, 3.0] {
            let exact = drawn(shape, std);
            let single = exact.to_kind(Kind::Float);
            let exact = single.to_kind(Kind::Double);
            let (ours, theirs) = (output_and_gradient(&single, shape[2]), output_and_gradient(&exact, shape[2]));
            for (what, ours, theirs) in [("output", &ours[0], &theirs[0]), ("gradient", &ours[1], &theirs[1])] {
                assert_eq!(ours.size(), theirs.size());
                let error = error(ours, theirs);
                assert!(error < 1e-5, "{what} at {shape:?}, standard deviation {std}: {error:e}");
            }
        }
    }
}

/// Queries against keys of the other sign, so that all logits of a row are below zero by as much as a number: a network
/// without norms comes there. Logits of some hundreds are rounded by 3e-5, and so are their exponentials.
#[test]
fn rows_of_logits_below_zero_have_their_gradients_however_far_they_are() {
    let shape = [1, 5, 1, 8]; // whole vectors of width, but not of tokens
    for level in (0..1200).map(|level| f64::from(level) * 0.25) {
        let away = Tensor::from_slice(&[1.0f64, -1.0, 0.0]).repeat_interleave_self_int(8, 0, None);
        let single = (drawn(shape, 0.1) + away * (level / 8f64.sqrt()).sqrt()).to_kind(Kind::Float);
        let exact = output_and_gradient(&single.to_kind(Kind::Double), 1);
        for (ours, exact) in output_and_gradient(&single, 1).iter().zip(&exact) {
            let error = error(ours, exact);
            assert!(error < 1e-3, "logits of about -{level}: {error:e}");
        }
    }
}

/// What the tolerance above must be able to see: a wrong scale by 0.1 %, and heads that are cut wrongly.
#[test]
fn the_tolerance_tells_a_small_fault() {
    let exact = drawn([2, 50, 2, 32], 1.0);
    let [right, _] = output_and_gradient(&exact, 2);
    let scaled = Tensor::cat(&[exact.narrow(2, 0, 64) * 1.001, exact.narrow(2, 64, 128)], 2);
    assert!(error(&output_and_gradient(&scaled, 2)[0], &right) > 1e-4);
    assert!(error(&output_and_gradient(&exact, 4)[0], &right) > 1e-1);
}

#[test]
fn an_empty_batch_gives_an_empty_output() {
    let [out, gradient] = output_and_gradient(&drawn([0, 5, 2, 8], 1.0).to_kind(Kind::Float), 2);
    assert_eq!((out.size(), gradient.size()), (vec![0, 5, 16], vec![0, 5, 48]));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let qkv = drawn([5, 50, 3, 20], 1.0).to_kind(Kind::Float);
    let [one, two] = [1, 2].map(|threads| {
        set_threads(threads);
        output_and_gradient(&qkv, 3)
    });
    assert!(one[0].equal(&two[0]) && one[1].equal(&two[1]));
}

/// A network that has diverged must be seen to have.
#[test]
fn numbers_out_of_range_are_not_hidden() {
    for value in [f64::NAN, f64::INFINITY] {
        let qkv = drawn([2, 9, 2, 8], 1.0).to_kind(Kind::Float);
        let _ = qkv.get(1).get(4).narrow(0, 0, 1).fill_(value); // one number of one query of the second image
        let [out, gradient] = output_and_gradient(&qkv, 2);
        assert!(out.get(0).isfinite().all().int64_value(&[]) == 1, "the other image is not touched");
        assert!(out.get(1).get(4).isnan().any().int64_value(&[]) == 1, "{value}: the query's output");
        assert!(gradient.get(1).isnan().any().int64_value(&[]) == 1, "{value}: the image's gradient");
    }
    // Logits far beyond what exp can hold: one token takes all.
    let [out, _] = output_and_gradient(&drawn([2, 50, 2, 32], 300.0).to_kind(Kind::Float), 2);
    assert!(out.isfinite().all().int64_value(&[]) == 1);
}

#[test]
fn a_gradient_of_a_gradient_is_refused() {
    let qkv = drawn([1, 4, 1, 8], 1.0).to_kind(Kind::Float).set_requires_grad(true);
    let sum = attention(&qkv, 1).sum(Kind::Float);
    let refused = Tensor::f_run_backward(&[sum], &[&qkv], false, true).expect_err("the kernel has one derivative");
    assert!(refused.to_string().contains("differentiated once"), "{refused}");
}
