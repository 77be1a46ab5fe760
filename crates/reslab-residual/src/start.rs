//! What a join does at step 0: a times its residual plus b times its branch?

use reslab_torch::{Scope, stream};
use tch::{Device, Kind, Tensor};

use crate::{Branch, BranchKind, Pass, Site, Strategy, StrategyError};

/// Shapes that a join is tried with: B batch, N tokens, D width.
const B: i64 = 2;
const N: i64 = 5;
const D: i64 = 16;

/// A join at step 0, as `y = residual * x + branch * f(x)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// Factor on the residual.
    pub residual: f64,
    /// Factor on the branch.
    pub branch: f64,
    /// What is left over: norm(y - residual * x - branch * f(x)) / norm(y). Not near 0: the join is no such sum.
    pub rest: f64,
}

/// Tries the attention join of one block at step 0 with a branch of random numbers. Several streams are opened before the
/// join and closed behind it.
///
/// # Errors
/// When a parameter can't be registered.
pub fn start(strategy: &dyn Strategy, block: usize, depth: usize) -> Result<Start, StrategyError> {
    tch::no_grad(|| {
        let scope = Scope::new(0, Kind::Double, Device::Cpu);
        let site = Site { block, depth, kind: BranchKind::Attention, width: D, num_heads: 2, hidden: 2 * D };
        let line = strategy.stream(&scope.child("stream"), D)?;
        let join = strategy.join(&scope.child("join"), site)?;
        let x = normal("residual");
        let f = Fixed(normal("branch"));
        let mut pass = Pass::eval();
        let opened = line.open(&x, &mut pass);
        let before = line.close(&opened, &mut pass);
        let joined = join.forward(&opened, &f, &mut pass);
        Ok(fit(&before, &f.0, &line.close(&joined, &mut pass)))
    })
}

/// Least squares of y in x and f.
fn fit(x: &Tensor, f: &Tensor, y: &Tensor) -> Start {
    let dot = |a: &Tensor, b: &Tensor| (a * b).sum(Kind::Double).double_value(&[]);
    let (xx, xf, ff, xy, fy) = (dot(x, x), dot(x, f), dot(f, f), dot(x, y), dot(f, y));
    let determinant = xx * ff - xf * xf;
    let (residual, branch) = ((xy * ff - fy * xf) / determinant, (fy * xx - xy * xf) / determinant);
    let rest = y - x * residual - f * branch;
    Start { residual, branch, rest: (dot(&rest, &rest) / dot(y, y)).sqrt() }
}

fn normal(name: &str) -> Tensor {
    let mut stream = stream(0, name, &[]);
    Tensor::from_slice(&(0..B * N * D).map(|_| stream.normal()).collect::<Vec<f64>>()).view([B, N, D])
}

/// A branch that gives the same whatever it is fed.
struct Fixed(Tensor);

impl Branch for Fixed {
    fn norm(&self, x: &Tensor) -> Tensor {
        x.shallow_clone()
    }
    fn body(&self, _h: &Tensor, _pass: &mut Pass) -> Tensor {
        self.0.shallow_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn a_start_is_found_and_what_is_no_sum_is_seen() {
        let of = |table: &str| start(&*Registry::builtin().parse(&table.parse().unwrap()).unwrap(), 0, 12).unwrap();
        let near = |found: Start, residual: f64, branch: f64| {
            (found.residual - residual).abs() < 1e-9 && (found.branch - branch).abs() < 1e-9 && found.rest < 1e-9
        };
        assert!(near(of("kind = 'plain'"), 1.0, 1.0));
        assert!(near(of("kind = 'layer_scale'\ninit = 1e-5"), 1.0, 1e-5));
        assert!(near(of("kind = 'layer_scale'\ninit = 0.0"), 1.0, 0.0));
        let (x, f) = (normal("a"), normal("b"));
        assert!(fit(&x, &f, &(&x * &f)).rest > 0.5);
    }
}
