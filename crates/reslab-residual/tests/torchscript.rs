//! A join from PyTorch: equal to ours of the same equation, trained and kept like ours, and refused with a reason.
//! The modules are those of tests/torchscript/make_modules.py.

mod common;

use std::path::PathBuf;

use common::{Case, Probe, SITE, WIDTH, assert_same_bits, drop_path, largest_difference, normal};
use reslab_config::ConfigError;
use reslab_residual::{DropMode, Norm, Pass, Registry, Strategy, check_compatible, start};
use reslab_torch::{Group, OptimGroup, OptimKind, Optimizer, Scope, autocast_bf16};
use tch::{Device, Kind, Tensor};

fn file(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/torchscript/{name}.pt")).display().to_string()
}

fn parse(table: &str) -> Result<Box<dyn Strategy>, ConfigError> {
    Registry::builtin().parse(&table.parse().unwrap())
}

fn module(path: &str) -> Result<Box<dyn Strategy>, ConfigError> {
    parse(&format!("kind = 'torchscript'\npath = '{path}'"))
}

fn assign(case: &Case, other: &Case) {
    for parameter in &case.parameters {
        let from = other.parameters.iter().find(|p| p.name == parameter.name).expect("the same names");
        tch::no_grad(|| parameter.tensor.shallow_clone().copy_(&from.tensor));
    }
}

#[test]
fn a_module_gives_the_numbers_of_the_strategy_that_it_repeats() {
    for (name, table) in [
        ("gate", "kind = 'input_gate'\nhidden = 5\ninitial_gain = 0.1\noutput = 'scalar'"),
        ("layer_scale", "kind = 'layer_scale'\ninit = 0.3"),
    ] {
        let (ours, theirs) = (Case::new(parse(table).unwrap()).moved(), Case::new(module(&file(name)).unwrap()));
        let names = |case: &Case| {
            let mut names: Vec<_> =
                case.parameters.iter().map(|p| (p.name.clone(), format!("{:?}", p.group))).collect();
            names.sort();
            names
        };
        assert_eq!(names(&ours), names(&theirs), "{name}: names and groups");
        let run = |case: &Case| {
            let mut results = case.run(&mut Pass::eval(), &Probe::new());
            let gradients = results.split_off(3);
            let mut named: Vec<_> = case.parameters.iter().map(|p| p.name.clone()).zip(gradients).collect();
            named.sort_by(|a, b| a.0.cmp(&b.0));
            results.extend(named.into_iter().map(|(_, gradient)| gradient));
            results
        };
        let far = largest_difference(&run(&ours)[0], &run(&theirs)[0]);
        assert!(far > 1e-3, "{name}: control: other weights are seen");
        assign(&theirs, &ours);
        for (a, b) in run(&ours).iter().zip(&run(&theirs)) {
            assert!(largest_difference(a, b) < 1e-14, "{name}: outputs and gradients");
        }
        let gamma = |case: &Case| case.join.gamma().unwrap().value;
        assert!(gamma(&ours).equal(&gamma(&theirs)), "{name}: telemetry sees its gamma");
    }
    assert!((Case::new(module(&file("layer_scale")).unwrap()).join.gamma().unwrap().init - 0.3).abs() < 1e-7);
}

#[test]
fn a_module_starts_with_the_files_values_and_the_sites_copies_are_apart() {
    let strategy = module(&file("layer_scale")).unwrap();
    let scope = Scope::new(0, Kind::Float, Device::Cpu);
    let joins = ["a", "b"].map(|name| strategy.join(&scope.child(name), SITE).unwrap());
    let [a, b] = &scope.parameters()[..] else { panic!("one gamma each") };
    assert_eq!((a.name.as_str(), a.group, a.tensor.size()), ("a.gamma", Group::Gamma, vec![WIDTH]));
    assert!(a.tensor.equal(&b.tensor) && largest_difference(&a.tensor, &Tensor::from(0.3f32)) == 0.0);
    tch::no_grad(|| drop(a.tensor.shallow_clone().fill_(2.0)));
    let x = normal("x", &[1, 2, WIDTH]).to_kind(Kind::Float);
    let update = |join: usize| joins[join].update(&x, &Doubled, &mut Pass::eval());
    assert!(largest_difference(&update(0), &(&x * 4.0)) < 1e-6, "the module computes with what was registered");
    assert!(largest_difference(&update(1), &(&x * 0.6)) < 1e-6, "and the other site's with its own");
}

/// `f(x) = 2 x`
struct Doubled;
impl reslab_residual::Branch for Doubled {
    fn norm(&self, x: &Tensor) -> Tensor {
        x.shallow_clone()
    }
    fn body(&self, h: &Tensor, _pass: &mut Pass) -> Tensor {
        h * 2.0
    }
}

/// Every step's update is compared with our own strategy's, trained by the same optimizer.
#[test]
fn a_module_trains_like_the_strategy_that_it_repeats() {
    let ours = Case::new(parse("kind = 'layer_scale'\ninit = 0.3").unwrap());
    let theirs = Case::new(module(&file("layer_scale")).unwrap());
    assign(&theirs, &ours);
    let step = |case: &Case, optimizer: &mut Optimizer| {
        optimizer.zero_grad();
        let y = case.join.forward(&case.residual, &Probe::new(), &mut Pass::eval());
        y.square().mean(Kind::Double).backward();
        optimizer.step(0.01).unwrap();
    };
    let start = theirs.parameters[0].tensor.detach().copy();
    let mut optimizers = [&ours, &theirs].map(|case| {
        let kind = OptimKind::AdamW { beta1: 0.9, beta2: 0.99, eps: 1e-8 };
        let group = OptimGroup {
            name: "all".into(),
            parameters: case.parameters.clone(),
            lr_scale: 1.0,
            weight_decay: 0.0,
            eps_scale: 1.0,
        };
        Optimizer::new(kind, vec![group])
    });
    for _ in 0..5 {
        step(&ours, &mut optimizers[0]);
        step(&theirs, &mut optimizers[1]);
    }
    assert!(largest_difference(&ours.parameters[0].tensor, &theirs.parameters[0].tensor) < 1e-12);
    assert!(largest_difference(&theirs.parameters[0].tensor, &start) > 0.02, "control: five steps of .01 are seen");
}

#[test]
fn calls_give_the_same_bits_again_and_again() {
    let case = Case::new(module(&file("gate")).unwrap()).moved();
    let first = case.run(&mut Pass::eval(), &Probe::new());
    for _ in 0..4 {
        assert_same_bits(&case.run(&mut Pass::eval(), &Probe::new()), &first, "as interpreted the first time");
    }
}

#[test]
fn a_gate_works_under_autocast() {
    let strategy = module(&file("gate")).unwrap();
    let join = strategy.join(&Scope::new(0, Kind::Float, Device::Cpu), SITE).unwrap();
    let x = normal("x", &[2, 3, WIDTH]).to_kind(Kind::Float);
    let exact = join.update(&x, &Doubled, &mut Pass::eval());
    let guard = autocast_bf16(Device::Cpu, true);
    let rounded = join.update(&x, &Doubled, &mut Pass::eval());
    drop(guard);
    assert!(largest_difference(&exact, &rounded.to_kind(Kind::Float)) < 1e-2);
}

#[test]
fn what_cannot_be_used_is_refused_before_any_training() {
    for (name, reason) in [
        ("one_argument", "its method is `forward(branch_output: Tensor) -> Tensor`, but must be"),
        ("pair", "forward(residual: Tensor, branch_output: Tensor) -> Tuple[Tensor, Tensor]"),
        ("buffer", "it has the buffer `mean`"),
        ("half", "its parameter `gamma` is Half, but must be float32"),
        ("frozen", "its parameter `gamma` requires no gradient"),
    ] {
        let error = module(&file(name)).unwrap_err();
        assert_eq!(error.key, "residual.path", "{error}");
        assert!(error.problem.contains(reason) && error.problem.contains(&format!("{name}.pt: ")), "{error}");
        assert!(!error.problem.contains('\n'), "{error}");
    }
    for (name, reason) in [
        ("other_shape", "gives ([2, 4], Float, Cpu), but must give"),
        ("other_type", "gives ([2, 3, 4], Double, Cpu), but must give"),
        ("other_device", "fails: "),
        ("random", "gives another update at its second call"),
        ("unused", "does not use its parameter `idle`"),
        ("no_branch", "does not use branch_output"),
        ("gamma_matrix", "its gamma is [4, 4], but must be one value or [4]"),
    ] {
        let error = module(&file(name)).unwrap().stream(&Scope::counting(), WIDTH).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(&format!("{name}.pt: ")), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let gate = module(&file("gate")).unwrap();
    let error = gate.stream(&Scope::counting(), 2 * WIDTH).unwrap_err().to_string();
    assert!(error.contains("tried on tensors [2, 3, 8], the module fails: "), "of another width: {error}");
    gate.stream(&Scope::counting(), WIDTH).unwrap();
}

#[test]
fn a_file_that_is_missing_or_no_module_is_refused() {
    let folder = env!("CARGO_MANIFEST_DIR");
    for (path, reason) in [
        (file("nowhere"), "cannot be read: No such file"),
        (folder.to_owned(), "cannot be read: it is no file"),
        (format!("{folder}/Cargo.toml"), "can't be used as a module: "),
    ] {
        let error = module(&path).unwrap_err();
        assert_eq!(error.key, "residual.path");
        assert!(error.problem.contains(reason) && !error.problem.contains('\n'), "{error}");
    }
}

#[test]
fn a_changed_file_is_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.pt");
    std::fs::copy(file("gate"), &path).unwrap();
    let table = format!("kind = 'torchscript'\npath = '{}'", path.display());
    let pins = |table: &str| parse(table).unwrap().pins();
    let before = pins(&table);
    let pinned = format!("{table}\n{before}");
    assert_eq!(pins(&pinned), before, "the table of the plan is parsed again");
    std::fs::copy(file("layer_scale"), &path).unwrap();
    assert_ne!(pins(&table), before);
    let error = parse(&pinned).unwrap_err();
    assert_eq!(error.key, "residual.sha256");
    assert!(error.problem.contains("when the run was planned"), "{error}");
    assert_eq!(pins(&table)["sha256"].as_str().map(str::len), Some(64));
    assert!(parse("kind = 'plain'").unwrap().pins().is_empty());
}

/// The check of drop path builds a join of width 1, for which a module may not be made.
#[test]
fn drop_path_goes_with_a_module_of_any_width() {
    check_compatible(&*module(&file("layer_scale")).unwrap(), &drop_path(0.1, DropMode::Subset), Norm::Pre).unwrap();
}

/// `reslab strategies` looks at it without gradient; the try of the module needs one.
#[test]
fn a_module_is_tried_also_where_no_gradient_is_wanted() {
    let start = start(&*module("built-in").unwrap(), 0, 12).unwrap();
    assert!((start.residual - 1.0).abs() < 1e-7 && (start.branch - 0.1).abs() < 1e-7, "{start:?}");
}
