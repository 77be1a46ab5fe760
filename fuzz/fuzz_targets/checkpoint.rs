//! The bytes of a checkpoint. Where the first byte is odd, the rest is a header and its right length is put before it; the
//! tensors' data is then as many zeros as the second byte says.
//!
//! Held: no panic; memory in proportion to the file; a file that passes its checksum is written and read as it was.
#![no_main]

#[path = "../../crates/reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use reslab_record::{CHECKPOINT_FILE, Checkpoint};

fuzz_target!(|data: &[u8]| {
    let [mode, zeros, rest @ ..] = data else { return };
    let bytes = if mode & 1 == 1 {
        [&(rest.len() as u64).to_le_bytes()[..], rest, &vec![0; usize::from(*zeros)]].concat()
    } else {
        rest.to_vec()
    };
    let (read, peak) = allocation::peak_of(|| Checkpoint::decode(Path::new("x"), &bytes));
    assert!(peak <= 16 * bytes.len() + (64 << 10), "{} bytes took {peak}", bytes.len());
    let Ok(checkpoint) = read else { return };
    let folder = tempfile::tempdir().expect("a folder");
    checkpoint.write(folder.path()).expect("written");
    let again = Checkpoint::read_file(&folder.path().join(CHECKPOINT_FILE)).expect("read");
    assert_eq!(again, checkpoint);
});
