//! Memory that a piece of code holds at its most, counted by the allocator of the test's own binary, per thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    let live = LIVE.get() + bytes;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: all memory is the system allocator's; the counters are plain numbers of the calling thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What `body` gives, and the most bytes that it held at once.
pub fn peak_of<T>(body: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let value = body();
    (value, (PEAK.get() - before) as usize)
}

#[test]
fn memory_that_a_header_promises_is_seen_even_where_it_is_never_touched() {
    let (_, few) = peak_of(|| vec![1_u8; 1000]);
    assert!((1000..2000).contains(&few), "{few}");
    let trusting = |header: [u8; 8]| Vec::<u8>::with_capacity(u64::from_le_bytes(header) as usize);
    let (_, peak) = peak_of(|| trusting(0x4000_0000_u64.to_le_bytes()));
    assert!(peak >= 1 << 30, "{peak}");
}
