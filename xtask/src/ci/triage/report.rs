//! Failures as Markdown for a pull request, and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Class, Failure};

/// How many failures of a class are shown.
const SHOWN: usize = 50;

fn count(failures: &[Failure], class: Class) -> usize {
    failures.iter().filter(|failure| failure.class == class).count()
}

/// A summary for a pull request. `notes` are said at its end.
pub fn markdown(failures: &[Failure], notes: &[String]) -> String {
    let new = count(failures, Class::New);
    let mut text = match (failures.len(), new) {
        (0, _) => "## Nothing failed\n".to_owned(),
        (_, 0) => "## No new failures\n".to_owned(),
        (_, 1) => "## 1 new failure\n".to_owned(),
        (_, new) => format!("## {new} new failures\n"),
    };
    for class in Class::ALL {
        let of_class: Vec<_> = failures.iter().filter(|failure| failure.class == class).collect();
        if of_class.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n### {} ({})\n", class.title(), of_class.len());
        of_class.iter().take(SHOWN).for_each(|failure| item(&mut text, failure));
        if of_class.len() > SHOWN {
            let _ = writeln!(text, "- … and {} more", of_class.len() - SHOWN);
        }
    }
    for note in notes {
        let _ = writeln!(text, "\n> {note}");
    }
    text
}

fn item(text: &mut String, failure: &Failure) {
    let what = failure.test.as_deref().unwrap_or(&failure.found_by);
    let _ = write!(text, "- **{}** {}: {}", plain(&failure.job), code(what), code(&failure.error));
    if let Some(place) = &failure.place {
        let _ = write!(text, " at {}", code(place));
    }
    if failure.more > 0 {
        let errors = if failure.more == 1 { "error" } else { "errors" };
        let _ = write!(text, ", and {} more {errors}", failure.more);
    }
    let reason =
        if failure.class == Class::New { String::new() } else { format!("; {}", failure.reason) };
    let _ = writeln!(text, " ({}{reason})", plain(&failure.source));
    if failure.class == Class::New && !failure.excerpt.is_empty() {
        let _ = writeln!(text, "  <details><summary>log</summary>\n\n  ~~~text");
        for line in &failure.excerpt {
            // A line of tildes would end the block.
            let line = format!("  {}", line.replace("~~~", "~ ~ ~"));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(text, "  ~~~\n\n  </details>");
    }
}

/// `text` as code: one line, and not too long a one.
fn code(text: &str) -> String {
    const MOST: usize = 300;
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if let Some((end, _)) = line.char_indices().nth(MOST) {
        line.truncate(end);
        line.push('…');
    }
    if line.contains('`') { format!("`` {line} ``") } else { format!("`{line}`") }
}

/// `text` without what Markdown or HTML would take for its own.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '*' | '_' | '`' | '[' | ']' | '\\' => plain.extend(['\\', c]),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

/// Everything, for programs.
///
/// # Errors
/// None that is known.
pub fn json(failures: &[Failure], notes: &[String]) -> Result<String> {
    let mut counts = Map::new();
    for class in Class::ALL {
        let name = serde_json::to_value(class)?;
        let name = name.as_str().unwrap_or_default().to_owned();
        counts.insert(name, Value::from(count(failures, class)));
    }
    let whole = json!({ "counts": counts, "failures": failures, "notes": notes });
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}
