//! Work that waits for other processes, such as compilers, on threads of its own: the thread pool
//! stays free for kernels.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::threads::panicked;
use crate::Result;

/// `f` of every item, in the order of the items, computed on as many threads as there are cores.
/// A panic in `f` is an error like any other.
pub fn parallel_map<T: Sync, R: Send + Sync>(
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let results: Vec<OnceLock<Result<R>>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((item, slot)) = {
            let at = next.fetch_add(1, Relaxed);
            items.get(at).zip(results.get(at))
        } {
            let result = catch_unwind(AssertUnwindSafe(|| f(item)));
            let _ = slot.set(result.unwrap_or_else(|panic| Err(panicked(&*panic))));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for index in 1..cores.min(items.len()) {
            let name = format!("etmetal-compile-{index}");
            // Without another thread the others have more to do.
            let _ = std::thread::Builder::new().name(name).spawn_scoped(scope, work);
        }
        work();
    });
    let taken = |slot: OnceLock<Result<R>>| slot.into_inner().expect("every item was worked on");
    results.into_iter().map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::err;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let results = parallel_map(&items, |&n| match n {
            7 => Err(err!(NotFound, "seven")),
            8 => panic!("eight"),
            n => Ok(n * 2),
        });
        for (n, result) in results.iter().enumerate() {
            match n {
                7 => assert!(matches!(result, Err(crate::Error::NotFound(_)))),
                8 => assert!(result.as_ref().unwrap_err().to_string().contains("eight")),
                n => assert_eq!(*result.as_ref().unwrap(), n as u32 * 2),
            }
        }
        assert!(parallel_map(&[] as &[u32], |&n| Ok(n)).is_empty());
    }
}
