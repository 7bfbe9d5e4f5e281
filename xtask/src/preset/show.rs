//! A resolved preset as people and programs read it.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::{Origin, Preset, Sourced, Value};

impl Value {
    /// The value as a preset file writes it.
    pub fn toml_text(&self) -> String {
        match self {
            Value::Text(text) => toml::Value::from(text.as_str()).to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::List(items) => {
                let items: Vec<_> =
                    items.iter().map(|i| toml::Value::from(i.as_str()).to_string()).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }

    fn json(&self) -> Json {
        match self {
            Value::Text(text) => json!(text),
            Value::Bool(flag) => json!(flag),
            Value::Integer(number) => json!(number),
            Value::List(items) => json!(items),
        }
    }
}

/// A key as TOML writes it: bare where it can be.
pub fn toml_key(key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !key.is_empty() && key.bytes().all(bare) {
        true => key.to_owned(),
        false => toml::Value::from(key).to_string(),
    }
}

/// The settings as TOML, by table; with `explain`, who set each value and what it overrode.
pub fn text(preset: &Preset, explain: bool) -> String {
    let title = format!("{}: {}", preset.identity.name, preset.identity.description);
    let mut text = format!("# {}\n", one_line(&title));
    let _ = writeln!(text, "# built on {} for {}", preset.host, preset.target);
    let mut table = "";
    let mut lines: Vec<_> =
        preset.settings.iter().map(|(name, set)| (name, line(name, set))).collect();
    lines.sort_by_key(|(name, _)| split(name));
    let width = lines.iter().map(|(_, line)| line.chars().count()).filter(|n| *n <= 60).max();
    let width = width.unwrap_or(0);
    for (name, line) in lines {
        let (of, _) = split(name);
        if of != table {
            table = of;
            let _ = writeln!(text, "\n[{table}]");
        }
        if !explain {
            let _ = writeln!(text, "{line}");
            continue;
        }
        let origin = &preset.settings.get(name).expect("it is one of them").origin;
        let _ = writeln!(text, "{line:width$}  # {}", one_line(&origin.to_string()));
        for over in preset.settings.overridden(name) {
            let over = one_line(&format!("over {} of {}", over.value, over.origin));
            let _ = writeln!(text, "{:width$}  #   {over}", "");
        }
    }
    text
}

/// `text` as a comment can hold it.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

fn line(name: &str, set: &Sourced<Value>) -> String {
    format!("{} = {}", toml_key(split(name).1), set.value.toml_text())
}

/// Table and key of a full name.
fn split(name: &str) -> (&str, &str) {
    let options = super::executorch::OPTIONS.name;
    match name.strip_prefix(options).and_then(|rest| rest.strip_prefix('.')) {
        Some(option) => (options, option),
        None => name.split_once('.').unwrap_or(("", name)),
    }
}

/// The same for programs.
pub fn json(preset: &Preset) -> Json {
    let mut settings = serde_json::Map::new();
    for (name, set) in preset.settings.iter() {
        let mut entry = sourced(set);
        let over: Vec<_> = preset.settings.overridden(name).map(sourced).collect();
        entry["overrides"] = json!(over);
        settings.insert(name.to_owned(), entry);
    }
    json!({
        "name": preset.identity.name,
        "description": preset.identity.description,
        "host": preset.host,
        "target": preset.target,
        "settings": settings,
    })
}

fn sourced(set: &Sourced<Value>) -> Json {
    let origin = match &set.origin {
        Origin::File(place) => json!({
            "file": place.file.path,
            "line": place.line(),
            "column": place.column(),
        }),
        Origin::Environment(text) => json!({ "environment": text }),
        Origin::CommandLine(text) => json!({ "command_line": text }),
    };
    json!({ "value": set.value.json(), "origin": origin })
}
