//! What a destroyed model has left behind.

use std::fmt::Write;

use etmetal::runner::Runtime;
use etmetal::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::output::Style;

/// One object that was lent to a model and not given back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Leftover {
    /// `tensor`, `shader library` or `memory`.
    kind: String,
    /// The C function that made it; "" if none did.
    made_by: String,
    bytes: usize,
    dtype: Option<String>,
    shape: Option<Vec<i64>>,
    label: Option<String>,
}

#[derive(Deserialize)]
struct Tracked {
    live: Vec<Leftover>,
    left_behind: Vec<Leftover>,
    left_behind_more: usize,
}

/// What is left now that no module is loaded: what models left behind when they were destroyed,
/// and what is still lent.
///
/// # Errors
/// The library tells it in another form.
pub fn of(runtime: &Runtime) -> Result<Vec<Leftover>> {
    let tracked: Tracked = serde_json::from_str(&runtime.tracked_json())
        .map_err(|e| Error::Internal(format!("what was tracked cannot be read: {e}")))?;
    let mut left = tracked.left_behind;
    left.extend(tracked.live);
    if tracked.left_behind_more > 0 {
        left.push(Leftover {
            kind: format!("{} more objects", tracked.left_behind_more),
            made_by: String::new(),
            bytes: 0,
            dtype: None,
            shape: None,
            label: None,
        });
    }
    Ok(left)
}

/// Tells it to people, one object a line.
pub fn tell(text: &mut String, left: &[Leftover], style: Style) {
    if left.is_empty() {
        text.push_str("track  nothing left behind\n");
        return;
    }
    let _ = writeln!(text, "{}", style.red(&format!("track  {} left behind", left.len())));
    for object in left {
        let _ = writeln!(text, "  {}", object.text());
    }
}

impl Leftover {
    fn text(&self) -> String {
        let mut text = self.kind.clone();
        if let (Some(dtype), Some(shape)) = (&self.dtype, &self.shape) {
            let _ = write!(text, " {dtype} {shape:?}");
        }
        if let Some(label) = &self.label {
            let _ = write!(text, " {label}");
        }
        if self.bytes > 0 {
            let _ = write!(text, ", {} bytes", self.bytes);
        }
        if !self.made_by.is_empty() {
            let _ = write!(text, ", made by {}", self.made_by);
        }
        text
    }
}
