//! The JSON schema of preset files, for editors: written from the same tables that read them.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value as Json, json};

use super::executorch::{OPTIONS, PREFIX};
use super::options::{OptionKind, recorded};
use super::platform::TRIPLES;
use super::schema::{HOSTS, IDENTITY, SETTINGS, Table};
use super::value::Kind;

/// Where the schema lies, relative to the repository; presets name it in their first line.
pub const PATH: &str = "presets/schema.json";

/// The first line of a preset: where editors find the schema.
pub const DIRECTIVE: &str = "#:schema ./schema.json";

/// The text of the schema's file. In draft 7, which editors understand.
pub fn text() -> String {
    let generator = SchemaSettings::draft07().into_generator();
    let schema = generator.into_root_schema_for::<PresetFile>();
    serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
}

/// A whole file.
struct PresetFile;

impl JsonSchema for PresetFile {
    fn schema_name() -> Cow<'static, str> {
        "etmetal preset".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = top_tables();
        let overlay = generator.subschema_for::<Overlay>();
        let named = |names: &[&str]| -> Map<String, Json> {
            names.iter().map(|name| ((*name).to_owned(), overlay.clone().into())).collect()
        };
        properties.insert("preset".to_owned(), table(IDENTITY));
        properties.insert(
            "host".to_owned(),
            json!({
                "description": "settings for a kind of machine that builds",
                "type": "object",
                "properties": named(HOSTS),
                "additionalProperties": false,
            }),
        );
        properties.insert(
            "target".to_owned(),
            json!({
                "description": "settings for a triple that is built for",
                "type": "object",
                "properties": named(TRIPLES),
                "additionalProperties": overlay,
            }),
        );
        json_schema!({
            "type": "object",
            "properties": properties,
            "required": ["preset"],
            "additionalProperties": false,
        })
    }
}

/// What `[host.*]` and `[target.*]` hold.
struct Overlay;

impl JsonSchema for Overlay {
    fn schema_name() -> Cow<'static, str> {
        "settings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": top_tables(),
            "additionalProperties": false,
        })
    }
}

/// The tables that can stand at the top and in overlays.
fn top_tables() -> Map<String, Json> {
    let tops = SETTINGS.iter().filter(|table| !table.name.contains('.'));
    tops.map(|top| {
        let mut schema = table(top);
        if top.name == "executorch" {
            schema["properties"]["options"] = options();
        }
        (top.name.to_owned(), schema)
    })
    .collect()
}

fn table(table: &Table) -> Json {
    let keys = table.keys.iter().map(|key| {
        let mut schema = kind(key.kind);
        schema["description"] = json!(key.doc);
        (key.name.to_owned(), schema)
    });
    json!({
        "type": "object",
        "properties": keys.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

/// `[executorch.options]`: those of the newest recorded version are offered, others may be
/// declared by a source tree.
fn options() -> Json {
    let recorded = recorded::table(None);
    let known = recorded.schema.options.iter().map(|(name, option)| {
        let schema = match &option.kind {
            OptionKind::Bool => kind(Kind::Bool),
            OptionKind::Text(choices) if !choices.is_empty() => json!({ "enum": choices }),
            OptionKind::Text(_) => json!({ "type": ["string", "integer"] }),
            OptionKind::Any => kind(Kind::Option),
        };
        (name.clone(), schema)
    });
    json!({
        "description": format!("{}: CMake options, without {PREFIX}", OPTIONS.name),
        "type": "object",
        "properties": known.collect::<Map<_, _>>(),
        "additionalProperties": kind(Kind::Option),
    })
}

fn kind(kind: Kind) -> Json {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::List => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Option => json!({ "type": ["boolean", "integer", "string"] }),
        Kind::Version => json!({ "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)*$" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::ChoiceOrPath(choices) => {
            json!({ "anyOf": [{ "enum": choices }, { "type": "string", "pattern": "/" }] })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{Folder, Source as _};
    use crate::workspace::Workspace;

    #[test]
    fn the_file_is_current_and_every_preset_names_it() {
        let root = Workspace::root().unwrap();
        let file = std::fs::read_to_string(root.join(PATH)).unwrap();
        assert!(file == text(), "write it anew with `cargo xtask preset schema`");
        let folder = Folder::new(&root);
        for name in folder.names() {
            let file = folder.read(&name).unwrap().unwrap();
            assert_eq!(file.text.lines().next(), Some(DIRECTIVE), "{name}");
        }
    }
}
