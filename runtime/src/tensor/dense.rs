//! The dense layout that PyTorch gives to results which keep the order of their source's strides.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::Layout;
use crate::Result;

impl Layout {
    /// A dense layout of the same sizes, in the order of these strides: these very strides if
    /// they are dense. What a clone (`c10::MemoryFormat::Preserve`) and a sort give.
    ///
    /// # Errors
    /// As for [`Layout::new`].
    pub fn dense_like(&self) -> Result<Layout> {
        if self.is_dense() {
            return Ok(self.clone());
        }
        // From the dimension with the smallest stride outwards, sorted as PyTorch's
        // `infer_dense_strides` does: a repeated dimension (stride 0) compares as equal to all,
        // so the order is no total one and the very steps of the sort matter.
        let mut order: SmallVec<[usize; 6]> = (0..self.dim()).rev().collect();
        for i in 1..order.len() {
            let mut moving = i;
            for other in (0..i).rev() {
                match compare_dimensions(self, order[other], order[moving]) {
                    Ordering::Greater => {
                        order.swap(other, moving);
                        moving = other;
                    }
                    Ordering::Less => break,
                    Ordering::Equal => {}
                }
            }
        }
        let mut strides = SmallVec::<[i64; 6]>::from_elem(1, self.dim());
        let mut next = 1;
        for d in order {
            strides[d] = next;
            next *= self.sizes[d].max(1);
        }
        Layout::new(&self.sizes, &strides)
    }
}

/// Which dimension lies further inside; `Equal` if there is no telling.
fn compare_dimensions(layout: &Layout, a: usize, b: usize) -> Ordering {
    let (stride_a, stride_b) = (layout.strides[a], layout.strides[b]);
    if stride_a == 0 || stride_b == 0 {
        return Ordering::Equal;
    }
    stride_a.cmp(&stride_b).then(if layout.sizes[a] > layout.sizes[b] {
        Ordering::Greater
    } else {
        Ordering::Equal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_have_the_strides_that_pytorch_gives_them() {
        // Expected strides: torch.empty(0).as_strided(sizes, strides).clone().stride()
        let cases: [(&[i64], &[i64], &[i64]); 7] = [
            (&[2, 3], &[3, 1], &[3, 1]),
            (&[2, 3], &[1, 2], &[1, 2]),
            (&[2, 3], &[8, 2], &[3, 1]),
            (&[2, 3], &[2, 8], &[1, 2]),
            (&[2, 3, 4], &[0, 4, 1], &[12, 4, 1]),
            (&[4, 3], &[1, 0], &[3, 1]),
            (&[5], &[3], &[1]),
        ];
        for (sizes, strides, expected) in cases {
            let layout = Layout::new(sizes, strides).unwrap();
            assert_eq!(layout.dense_like().unwrap().strides.as_slice(), expected, "{strides:?}");
        }
    }
}
