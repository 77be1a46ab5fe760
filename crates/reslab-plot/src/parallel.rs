//! The same for every item, in as many threads as the machine has; the results stand in the items' order.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maps `items` by `f`. A panic in `f` is passed on.
pub fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, items.get(k)?)))
        {
            done.push((index, f(item)));
        }
        done
    };
    let mut all = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join =
            |handle: std::thread::ScopedJoinHandle<_>| handle.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        handles.into_iter().flat_map(join).collect::<Vec<_>>()
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..500).collect();
        assert_eq!(super::map(&items, |x| x * x), items.iter().map(|x| x * x).collect::<Vec<_>>());
        assert!(super::map(&[] as &[u64], |x| *x).is_empty());
    }
}
