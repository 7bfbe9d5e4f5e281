//! Copies between tensors in CPU memory whose layouts differ.

/// Elements and where they lie: sizes and strides in elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'a> {
    pub sizes: &'a [i64],
    pub source_strides: &'a [i64],
    pub target_strides: &'a [i64],
    /// Bytes of one element.
    pub element: usize,
}

/// One dimension that is walked.
#[derive(Debug, Clone, Copy)]
struct Walk {
    size: usize,
    /// Bytes between neighbours.
    source: usize,
    target: usize,
}

/// Copies all elements.
///
/// # Safety
/// Every element must lie in readable memory from `source` and in writable memory from `target`,
/// which do not overlap.
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, elements: Elements<'_>) {
    if elements.sizes.contains(&0) {
        return;
    }
    let (run, walks) = plan(elements);
    // SAFETY: the walks reach exactly the elements, which the caller vouches for.
    unsafe { walk(source, target, run, &walks) };
}

/// Bytes that lie together on both sides, and the walks over what is left, outermost first.
fn plan(elements: Elements<'_>) -> (usize, Vec<Walk>) {
    let Elements { sizes, source_strides, target_strides, element } = elements;
    let mut walks: Vec<Walk> = sizes
        .iter()
        .zip(source_strides)
        .zip(target_strides)
        .filter(|((size, _), _)| **size != 1)
        .map(|((&size, &source), &target)| Walk {
            size: size as usize,
            source: source as usize * element,
            target: target as usize * element,
        })
        .collect();
    // In the order of the target's memory, so that writes are sequential and runs are found
    // whatever the order of the dimensions.
    walks.sort_by_key(|walk| std::cmp::Reverse(walk.target));
    let mut run = element;
    while let Some(last) = walks.last()
        && last.source == run
        && last.target == run
    {
        run *= last.size;
        walks.pop();
    }
    (run, walks)
}

/// # Safety
/// As for [`copy`].
unsafe fn walk(source: *const u8, target: *mut u8, run: usize, walks: &[Walk]) {
    let Some((first, rest)) = walks.split_first() else {
        // SAFETY: a run of elements on both sides.
        unsafe { std::ptr::copy_nonoverlapping(source, target, run) };
        return;
    };
    for index in 0..first.size {
        // SAFETY: the element at `index` of this dimension lies on both sides.
        unsafe {
            walk(source.add(index * first.source), target.add(index * first.target), run, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(source: &[u16], elements: Elements<'_>, len: usize) -> Vec<u16> {
        let mut target = vec![0u16; len];
        // SAFETY: the tests' layouts lie inside both.
        unsafe { copy(source.as_ptr().cast(), target.as_mut_ptr().cast(), elements) };
        target
    }

    #[test]
    fn equal_dense_layouts_are_one_run() {
        // Channels last on both sides.
        let strides = [48, 1, 12, 3];
        let elements = Elements {
            sizes: &[2, 3, 4, 4],
            source_strides: &strides,
            target_strides: &strides,
            element: 2,
        };
        let (run, walks) = plan(elements);
        assert_eq!((run, walks.len()), (192, 0));
    }

    #[test]
    fn transposed_elements_arrive_in_order() {
        let source: Vec<u16> = (0..6).collect();
        let elements = Elements {
            sizes: &[2, 3],
            source_strides: &[1, 2],
            target_strides: &[3, 1],
            element: 2,
        };
        assert_eq!(copied(&source, elements, 6), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn rows_with_gaps_are_packed_by_rows() {
        let source: Vec<u16> = (0..10).collect();
        let elements = Elements {
            sizes: &[2, 3],
            source_strides: &[5, 1],
            target_strides: &[3, 1],
            element: 2,
        };
        assert_eq!(plan(elements).0, 6);
        assert_eq!(copied(&source, elements, 6), [0, 1, 2, 5, 6, 7]);
    }

    #[test]
    fn broadcast_scalar_and_empty_tensors_are_ordinary() {
        let broadcast = Elements {
            sizes: &[2, 2],
            source_strides: &[0, 1],
            target_strides: &[2, 1],
            element: 2,
        };
        assert_eq!(copied(&[7, 8], broadcast, 4), [7, 8, 7, 8]);
        let scalar = Elements { sizes: &[], source_strides: &[], target_strides: &[], element: 2 };
        assert_eq!(copied(&[9], scalar, 1), [9]);
        let empty = Elements {
            sizes: &[0, 2],
            source_strides: &[2, 1],
            target_strides: &[2, 1],
            element: 2,
        };
        assert_eq!(copied(&[], empty, 0), [0u16; 0]);
    }
}
