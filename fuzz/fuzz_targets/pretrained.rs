//! A checkpoint of another program. Where the first byte is odd, the rest is a header and its right length is put before
//! it; the tensors' data is then as many zeros as the two bytes behind it say.
//!
//! Held: no panic; memory in proportion to the file; every parameter has as many elements as its shape; what can be
//! written for timm or transformers is read again as the same network.
#![no_main]

#[path = "../../crates/reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use reslab_pretrained::{Pretrained, Target, Weight, write};

fuzz_target!(|data: &[u8]| {
    let [mode, high, low, rest @ ..] = data else { return };
    let zeros = usize::from(u16::from_be_bytes([*high, *low]));
    let bytes = if mode & 1 == 1 {
        [&(rest.len() as u64).to_le_bytes()[..], rest, &vec![0; zeros]].concat()
    } else {
        rest.to_vec()
    };
    let length = bytes.len();
    let (opened, peak) = allocation::peak_of(|| Pretrained::decode(Path::new("x"), bytes));
    assert!(peak <= 64 * length + (256 << 10), "{length} bytes took {peak}");
    let pretrained = match opened {
        Ok(pretrained) => pretrained,
        Err(error) => {
            assert!(error.to_string().starts_with("x: "), "{error}");
            return;
        }
    };
    for mapped in pretrained.mapped() {
        let numel: usize = mapped.parts.iter().map(|part| part.bytes().len() / part.dtype.size()).sum();
        assert_eq!(mapped.shape.iter().product::<i64>() as usize, numel, "{}", mapped.name);
    }
    let mut network = pretrained.architecture().clone();
    network.num_heads.get_or_insert(1);
    for target in [Target::Timm, Target::Hf] {
        let (Ok(layout), weights) = (target.layout(&network), pretrained.mapped().iter().map(Weight::of_mapped)) else {
            continue;
        };
        let Some(weights) = weights.collect::<Option<Vec<_>>>() else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.safetensors");
        if write(&path, layout, &network, weights).is_ok() {
            let again = Pretrained::open(&path).expect("what was written can be read");
            assert_eq!((again.architecture().depth, again.architecture().width), (network.depth, network.width));
        }
    }
});
