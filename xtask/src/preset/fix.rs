//! Puts what faults propose into a preset's file, and leaves everything else in it as it is.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use similar::TextDiff;
use toml_edit::{DocumentMut, Item, Table};

use super::value::Value;

/// The text with `fixes` in it: settings by full name, which go to the end of their tables.
///
/// # Errors
/// The text is no TOML, or something of a table's name is no table.
pub fn apply(text: &str, fixes: &[(String, Value)]) -> Result<String> {
    let mut document: DocumentMut = text.parse().context("it is no TOML")?;
    for (name, value) in fixes {
        let (table, key) = name.rsplit_once('.').context("a setting has a table")?;
        let mut here: &mut dyn toml_edit::TableLike = document.as_table_mut();
        for part in table.split('.') {
            // A table that only holds others gets no line of its own.
            let new = || {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            };
            let entry = here.entry(part).or_insert_with(new);
            let Some(inner) = entry.as_table_like_mut() else {
                bail!("`{part}` of `{table}` is no table");
            };
            here = inner;
        }
        if !here.contains_key(key) {
            here.insert(key, item(value));
        }
    }
    Ok(document.to_string())
}

fn item(value: &Value) -> Item {
    match value {
        Value::Text(text) => toml_edit::value(text.as_str()),
        Value::Bool(flag) => toml_edit::value(*flag),
        Value::Integer(number) => toml_edit::value(*number),
        Value::List(items) => toml_edit::value(items.iter().collect::<toml_edit::Array>()),
    }
}

/// What differs, as `diff -u` tells it; `shown` is the file's name.
pub fn diff(shown: &Path, before: &str, after: &str) -> String {
    let name = shown.display().to_string();
    TextDiff::from_lines(before, after).unified_diff().header(&name, &name).to_string()
}

/// Writes `text` to `path` in one go: the file is the old or the new one, never a part.
///
/// # Errors
/// The folder cannot be written to.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    let context = || format!("cannot write {}", path.display());
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    let permissions = match std::fs::metadata(path) {
        Ok(old) => old.permissions(),
        Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
    };
    file.as_file().set_permissions(permissions).with_context(context)?;
    file.persist(path).with_context(context)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixes(names: &[&str]) -> Vec<(String, Value)> {
        let full = |name: &&str| (format!("executorch.options.{name}"), Value::Bool(true));
        names.iter().map(full).collect()
    }

    #[test]
    fn everything_else_of_the_file_stays_as_it_is() {
        let before = concat!(
            "# why\n[preset]\nname   = \"x\" # odd spaces\n\n",
            "[executorch.options]\nA = true   # needs B\n\n[backend]\nmetal = 'off'\n",
        );
        let after = apply(before, &fixes(&["B", "A"])).unwrap();
        insta::assert_snapshot!(diff(Path::new("presets/x.toml"), before, &after), @"
        --- presets/x.toml
        +++ presets/x.toml
        @@ -4,6 +4,7 @@
         
         [executorch.options]
         A = true   # needs B
        +B = true
         
         [backend]
         metal = 'off'
        ");
    }

    #[test]
    fn tables_that_are_missing_are_made() {
        let before = "[preset]\nname = \"x\"\n\n[executorch]\nfrom = \"git\"\n";
        insta::assert_snapshot!(apply(before, &fixes(&["B"])).unwrap(), @r#"
        [preset]
        name = "x"

        [executorch]
        from = "git"

        [executorch.options]
        B = true
        "#);
        let inline = "executorch = { options = { A = true } }\n";
        insta::assert_snapshot!(apply(inline, &fixes(&["B"])).unwrap(), @"executorch = { options = { A = true , B = true } }");
        let wrong = apply("executorch = 1\n", &fixes(&["B"])).unwrap_err();
        insta::assert_snapshot!(wrong.to_string(), @"`executorch` of `executorch.options` is no table");
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        assert!(write(&folder.path().join("none/x.toml"), "new").is_err());
    }
}
