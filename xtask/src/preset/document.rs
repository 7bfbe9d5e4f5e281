//! One preset file, read and checked against the schema; nothing is merged yet.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Fault, PresetError};
use super::identity::Identity;
use super::origin::{Origin, Place, SourceFile, Sourced};
use super::platform;
use super::schema::{self, HOSTS, IDENTITY, Table};
use super::settings::Settings;
use super::value::{Kind, Value};

/// One preset file.
#[derive(Debug, PartialEq, Eq)]
pub struct Document {
    /// `[preset]`.
    pub identity: Identity,
    /// The settings at the top of the file.
    pub settings: Settings,
    /// The settings of `[host.NAME]`.
    pub hosts: BTreeMap<String, Settings>,
    /// The settings of `[target.TRIPLE]`.
    pub targets: BTreeMap<String, Settings>,
    /// Whether the file is TOML, so that what is not here is not in it.
    pub whole: bool,
}

impl Document {
    /// Reads `file`, which must call itself by `name`: what can be made of it, and every fault
    /// with its place.
    pub fn parse(file: &Arc<SourceFile>, name: &str) -> (Self, PresetError) {
        let (root, errors) = DeTable::parse_recoverable(&file.text);
        let syntax = !errors.is_empty();
        let faults = PresetError::default();
        let mut reader = Reader { file, overlay: "".into(), syntax, faults };
        for error in errors {
            reader.fault(error.span().unwrap_or(0..0), error.message());
        }
        let document = reader.document(name, root.get_ref());
        (document, reader.faults)
    }
}

/// Walks the tables of one file and gathers its faults.
struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    /// The overlay that is being read, as `host.linux`.
    overlay: Arc<str>,
    /// Something of the file could not be read, so that nothing counts as missing or odd.
    syntax: bool,
    faults: PresetError,
}

type Entry<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<toml::de::DeValue<'i>>);

impl Reader<'_> {
    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::File(Place {
            file: Arc::clone(self.file),
            span,
            overlay: Arc::clone(&self.overlay),
        })
    }

    fn fault(&mut self, span: Range<usize>, what: impl std::fmt::Display) {
        self.faults.push(Fault::at(&self.origin(span), what));
    }

    fn document(&mut self, name: &str, root: &DeTable<'_>) -> Document {
        let mut document = Document {
            identity: Identity::unnamed(name, self.origin(0..0)),
            settings: Settings::default(),
            hosts: BTreeMap::new(),
            targets: BTreeMap::new(),
            whole: !self.syntax,
        };
        if !root.contains_key("preset") && !self.syntax {
            self.fault(0..0, format_args!("`[preset]` with `name = \"{name}\"` is missing"));
        }
        for entry in root {
            match entry.0.get_ref().as_ref() {
                "preset" => document.identity = self.identity(name, entry),
                "host" => document.hosts = self.overlays(entry, Some(HOSTS)),
                "target" => document.targets = self.overlays(entry, None),
                _ => self.settings(entry, &mut document.settings, &["preset", "host", "target"]),
            }
        }
        document
    }

    fn identity(&mut self, name: &str, (key, value): Entry<'_, '_>) -> Identity {
        let mut identity = Identity::unnamed(name, self.origin(key.span()));
        let Some(table) = self.expect_table("preset", value) else { return identity };
        let mut named = false;
        for entry in table {
            let Some((sub, found)) = self.leaf(IDENTITY, entry) else { continue };
            match (sub, found.value) {
                ("name", Value::Text(text)) => {
                    named = true;
                    if text != name && !self.syntax {
                        self.faults.push(Fault::at(
                            &found.origin,
                            format_args!(
                                "the preset calls itself `{text}` but its file is `{name}.toml`: \
                                 make them equal"
                            ),
                        ));
                    }
                }
                ("description", Value::Text(text)) => identity.description = text,
                ("inherits", Value::List(_)) => identity.inherits = self.items(entry.1),
                ("hosts", Value::List(_)) => identity.hosts = self.hosts(entry.1),
                _ => unreachable!("the schema checked the kinds of [preset]"),
            }
        }
        if !named && !self.syntax {
            self.fault(key.span(), format_args!("`name = \"{name}\"` is missing in `[preset]`"));
        }
        identity
    }

    /// `hosts = […]`: those there are.
    fn hosts(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Sourced<String>> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.items(value).into_iter().partition(|host| HOSTS.contains(&host.value.as_str()));
        for host in unknown {
            let hint = schema::suggestion(&host.value, HOSTS.iter().map(|n| (*n).into()));
            let what = format_args!("unknown host `{}`{hint}", host.value);
            self.faults.push(Fault::at(&host.origin, what));
        }
        known
    }

    /// `[host.*]` or `[target.*]`: settings by name; `names` are the only ones allowed.
    fn overlays(
        &mut self,
        (key, value): Entry<'_, '_>,
        names: Option<&[&str]>,
    ) -> BTreeMap<String, Settings> {
        let kind = key.get_ref().as_ref();
        let mut overlays = BTreeMap::new();
        let Some(table) = self.expect_table(kind, value) else { return overlays };
        for (name, inner) in table {
            if let Some(names) = names
                && !names.contains(&name.get_ref().as_ref())
            {
                let hint = schema::suggestion(name.get_ref(), names.iter().map(|n| (*n).into()));
                self.fault(name.span(), format_args!("unknown {kind} `{}`{hint}", name.get_ref()));
                continue;
            }
            if names.is_none()
                && let Err(what) = platform::check_triple(name.get_ref())
            {
                self.fault(name.span(), what);
                continue;
            }
            let path = format!("{kind}.{}", name.get_ref());
            let Some(inner) = self.expect_table(&path, inner) else { continue };
            let mut settings = Settings::default();
            self.overlay = path.as_str().into();
            for entry in inner {
                self.settings(entry, &mut settings, &[]);
            }
            self.overlay = "".into();
            if let (None, Some(target)) = (names, settings.get("build.target")) {
                let what = "`build.target` cannot stand in `[target.*]`: it says which of these \
                            tables count";
                self.faults.push(Fault::at(&target.origin, what));
            }
            overlays.insert(name.get_ref().to_string(), settings);
        }
        overlays
    }

    /// One table of settings, with the tables inside it. `also` are table names that are valid
    /// here besides the settings, for suggestions.
    fn settings(&mut self, (key, value): Entry<'_, '_>, into: &mut Settings, also: &[&str]) {
        let name = key.get_ref().as_ref();
        match schema::settings_table(name) {
            Some(table) => self.table(table, value, into),
            None => {
                let tops = schema::SETTINGS.iter().map(|t| t.name).filter(|n| !n.contains('.'));
                let known = tops.chain(also.iter().copied()).map(String::from);
                let hint = schema::suggestion(name, known);
                self.fault(key.span(), format_args!("unknown table `{name}`{hint}"));
            }
        }
    }

    fn table(&mut self, table: &'static Table, value: &Spanned<DeValue<'_>>, into: &mut Settings) {
        let Some(entries) = self.expect_table(table.name, value) else { return };
        for entry in entries {
            let full = format!("{}.{}", table.name, entry.0.get_ref());
            if let Some(inner) = schema::settings_table(&full) {
                self.table(inner, entry.1, into);
            } else if let Some((_, found)) = self.leaf(table, entry) {
                into.set(full, found);
            } else {
                into.spoil(full);
            }
        }
    }

    /// One `key = value` of `table`, checked; nothing where there was a fault.
    fn leaf<'k>(
        &mut self,
        table: &Table,
        (key, value): Entry<'k, '_>,
    ) -> Option<(&'k str, Sourced<Value>)> {
        let name = key.get_ref().as_ref();
        let Some(kind) = table.kind(name) else {
            let hint = schema::suggestion(name, table.keys.iter().map(|k| k.name.into()));
            self.fault(
                key.span(),
                format_args!("unknown key `{name}` in `[{}]`{hint}", table.name),
            );
            return None;
        };
        let checked = convert(value.get_ref()).and_then(|v| kind.check(&v).map(|()| v));
        match checked {
            Ok(found) => Some((name, Sourced { value: found, origin: self.origin(value.span()) })),
            Err(what) => {
                let what = if what.is_empty() { expected(kind, value.get_ref()) } else { what };
                self.fault(value.span(), format_args!("`{}.{name}`: {what}", table.name));
                None
            }
        }
    }

    /// The strings of a list, each with its own place.
    fn items(&self, value: &Spanned<DeValue<'_>>) -> Vec<Sourced<String>> {
        let DeValue::Array(items) = value.get_ref() else { return Vec::new() };
        items
            .iter()
            .filter_map(|item| {
                let text = item.get_ref().as_str()?.to_owned();
                Some(Sourced { value: text, origin: self.origin(item.span()) })
            })
            .collect()
    }

    fn expect_table<'v, 'i>(
        &mut self,
        name: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = with_article(value.get_ref());
            self.fault(value.span(), format_args!("`{name}` is a table, not {found}"));
        }
        table
    }
}

/// The value as a preset knows it; an empty text for a type that no key takes.
fn convert(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Boolean(flag) => Ok(Value::Bool(*flag)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::Integer)
            .map_err(|e| format!("{number}: {e}")),
        DeValue::Array(items) => items
            .iter()
            .map(|item| item.get_ref().as_str().map(String::from).ok_or_else(String::new))
            .collect::<Result<_, _>>()
            .map(Value::List),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => Err(String::new()),
    }
}

fn expected(kind: Kind, value: &DeValue<'_>) -> String {
    match value {
        DeValue::Array(_) if kind == Kind::List => "every item of the list is a string".to_owned(),
        other => format!("expected {kind}, found {}", with_article(other)),
    }
}

/// The type of `value` with its article, as in `an integer`.
fn with_article(value: &DeValue<'_>) -> String {
    let name = value.type_str();
    let article = if name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document, String> {
        let file = SourceFile { path: "presets/x.toml".into(), text: text.to_owned() };
        let (document, faults) = Document::parse(&Arc::new(file), "x");
        faults.or(document).map_err(|e| e.to_string())
    }

    #[test]
    fn a_whole_file_is_read_with_origins() {
        let document = parse(concat!(
            "[preset]\nname = \"x\"\ndescription = \"d\"\ninherits = [\"base\"]\n",
            "[executorch]\nfrom = \"sdk\"\n[executorch.options]\nEXECUTORCH_X = true\n",
            "[host.linux.toolchain]\ncxx = \"g++\"\n",
            "[target.\"aarch64-apple-darwin\".link]\nflags = [\"-Wl,-x\"]\n",
        ))
        .unwrap();
        assert_eq!(document.identity.description, "d");
        assert_eq!(document.identity.inherits[0].origin.to_string(), "presets/x.toml:4:13");
        let option = document.settings.get("executorch.options.EXECUTORCH_X").unwrap();
        assert_eq!(option.value, Value::Bool(true));
        assert_eq!(option.origin.to_string(), "presets/x.toml:8:16");
        assert_eq!(document.hosts["linux"].text("toolchain.cxx").unwrap().value, "g++");
        assert_eq!(document.targets["aarch64-apple-darwin"].list("link.flags"), ["-Wl,-x"]);
    }

    #[test]
    fn all_faults_of_a_file_come_at_once_with_their_places() {
        let text = parse(concat!(
            "[preset]\nname = \"y\"\n",
            "[toolchian]\n",
            "[toolchain]\ncxxx = \"g++\"\n  generator = 3\n",
            "[build]\nfeatures = [\"a\", 1]\nprofile = 1.5\n",
            "[host.linus.build]\n",
            "[host.macos.build]\nprofil = \"x\"\n",
            "[executorch]\nfrom = \"wheel\"\n",
        ))
        .unwrap_err();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        presets/x.toml:10:7: unknown host `linus`; did you mean `linux`?
        presets/x.toml:12:1: unknown key `profil` in `[build]`; did you mean `profile`?
        presets/x.toml:14:8: `executorch.from`: expected "sdk" or "source" or "git", found "wheel"
        presets/x.toml:2:8: the preset calls itself `y` but its file is `x.toml`: make them equal
        presets/x.toml:3:2: unknown table `toolchian`; did you mean `toolchain`?
        presets/x.toml:5:1: unknown key `cxxx` in `[toolchain]`; did you mean `cxx`?
        presets/x.toml:6:15: `toolchain.generator`: expected a string, found 3
        presets/x.toml:8:12: `build.features`: every item of the list is a string
        presets/x.toml:9:11: `build.profile`: expected a string, found a float
        "#);
    }

    #[test]
    fn a_syntax_error_has_its_place() {
        insta::assert_snapshot!(parse("[preset]\nname = \n").unwrap_err(), @"presets/x.toml:2:8: string values must be quoted, expected literal string");
    }

    #[test]
    fn a_file_without_a_name_is_told_what_to_add() {
        insta::assert_snapshot!(parse("").unwrap_err(), @r#"presets/x.toml:1:1: `[preset]` with `name = "x"` is missing"#);
        insta::assert_snapshot!(parse("[preset]\n").unwrap_err(), @r#"presets/x.toml:1:2: `name = "x"` is missing in `[preset]`"#);
        insta::assert_snapshot!(parse("preset = 1\n").unwrap_err(), @"presets/x.toml:1:10: `preset` is a table, not an integer");
    }
}
