//! How large everything is: against budgets, and against an earlier release.

use anyhow::{Result, bail};

use super::catalogue::Catalogue;

/// What may be how large at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budgets {
    /// Bytes of an archive of a stage.
    pub archive: Option<u64>,
    /// Bytes of a wheel.
    pub wheel: Option<u64>,
    /// Bytes of libetmetal, unpacked.
    pub library: Option<u64>,
    /// Bytes of the xcframework, packed.
    pub framework: Option<u64>,
}

/// Members whose growth is told one by one.
const TOLD: usize = 5;

/// The table, and what is larger than it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// For people.
    pub table: String,
    /// One line each.
    pub too_large: Vec<String>,
}

/// Compares what was made with the budgets and with the catalogue of an earlier release.
pub fn report(made: &Catalogue, budgets: &Budgets, before: Option<&Catalogue>) -> Sizes {
    let (mut table, mut too_large) = (String::new(), Vec::new());
    let mut check = |what: &str, size: u64, limit: Option<u64>| {
        if let Some(limit) = limit.filter(|limit| size > *limit) {
            too_large.push(format!("{what} has {}, its budget is {}", shown(size), shown(limit)));
        }
    };
    let extract = |name: &str| earlier_name(name, before);
    for (name, archive) in &made.archives {
        let size = archive.parts.iter().map(|part| part.length).sum();
        let limit = match () {
            () if name.ends_with(".tar.zst") => budgets.archive,
            () if name.ends_with(".whl") => budgets.wheel,
            () if *name == super::xcframework::name() => budgets.framework,
            () => None,
        };
        check(name, size, limit);
        let old = extract(name).and_then(|old| before?.archives.get(&old));
        let old_size: Option<u64> = old.map(|old| old.parts.iter().map(|part| part.length).sum());
        table += &format!("{:>10}  {name}{}\n", shown(size), change(size, old_size));
        for (path, entry) in &archive.members {
            if is_library(path) {
                check(&format!("{name}: {path}"), entry.size, budgets.library);
            }
        }
        table += &grown(archive, old);
    }
    Sizes { table, too_large }
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "libetmetal.so" || name == "libetmetal.dylib"
}

/// The same archive in the earlier catalogue: its name has another version.
fn earlier_name(name: &str, before: Option<&Catalogue>) -> Option<String> {
    let before = before?;
    let plain = |name: &str, version: &str| name.replacen(&format!("-{version}"), "", 1);
    // A wheel for a newer or older system is the same wheel.
    let short = |name: String| match name.split_once("-py3-none-") {
        Some((start, platform)) if platform.starts_with("manylinux") => {
            format!("{start}-linux-{}", platform.splitn(4, '_').last().unwrap_or(platform))
        }
        _ => name,
    };
    let wanted = short(plain(name, super::VERSION));
    let names = before.archives.keys();
    names.into_iter().find(|old| short(plain(old, &before.version)) == wanted).cloned()
}

/// The members that grew most, and those that are new or gone.
fn grown(new: &super::catalogue::Archive, old: Option<&super::catalogue::Archive>) -> String {
    let Some(old) = old else { return String::new() };
    // Paths begin with a folder that has the version in its name.
    let inner = |path: &str| match path.split_once('/') {
        Some((first, rest)) if first.starts_with("etmetal-") => rest.to_owned(),
        _ => path.to_owned(),
    };
    let sizes = |archive: &super::catalogue::Archive| -> std::collections::BTreeMap<String, i64> {
        let members = archive.members.iter();
        members.map(|(path, entry)| (inner(path), entry.size.cast_signed())).collect()
    };
    let (new, old) = (sizes(new), sizes(old));
    let paths: std::collections::BTreeSet<_> = new.keys().chain(old.keys()).collect();
    let mut changes: Vec<_> = paths
        .into_iter()
        .map(|path| (new.get(path).unwrap_or(&0) - old.get(path).unwrap_or(&0), path))
        .filter(|(change, _)| *change != 0)
        .collect();
    changes.sort_by_key(|(change, path)| (-change.abs(), *path));
    let told = changes.iter().take(TOLD);
    told.map(|(change, path)| format!("{:>14}  {path}\n", signed(*change))).collect()
}

fn change(size: u64, before: Option<u64>) -> String {
    match before {
        None => String::new(),
        Some(before) if before == size => " (as before)".to_owned(),
        Some(before) => format!(" ({})", signed(size.cast_signed() - before.cast_signed())),
    }
}

fn signed(change: i64) -> String {
    let sign = if change < 0 { '-' } else { '+' };
    format!("{sign}{}", shown(change.unsigned_abs()))
}

/// As in `4.2 MB`.
pub fn shown(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Reads a size as presets have it: `12MB`, `300 kB`, `17`.
///
/// # Errors
/// It is none.
pub fn parse(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "kB" | "K" => 1000,
        "MB" | "M" => 1_000_000,
        _ => 0,
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(bytes) if unit > 0 => Ok(bytes),
        _ => bail!("{text:?} is no size, as \"12MB\" and \"300kB\" are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::archive::Part;
    use crate::package::catalogue::{Archive, Entry};

    fn catalogue(version: &str, sizes: &[(&str, &str, u64)]) -> Catalogue {
        let mut made = Catalogue { version: version.into(), ..Catalogue::default() };
        for (name, path, size) in sizes {
            let archive = made.archives.entry((*name).into()).or_insert(Archive {
                target: None,
                minimum_os: None,
                slices: Default::default(),
                parts: Vec::new(),
                members: Default::default(),
            });
            let part =
                Part { name: (*path).into(), offset: 0, length: size / 2, sha256: String::new() };
            archive.parts.push(part);
            let entry = Entry { size: *size, sha256: String::new(), mode: "644".into() };
            archive.members.insert((*path).into(), entry);
        }
        made
    }

    #[test]
    fn growth_is_told_by_member_and_budgets_are_kept() {
        let version = super::super::VERSION;
        let now = [
            (format!("etmetal-{version}-linux-x86_64.tar.zst"), "etmetal-2/lib/libetmetal.so"),
            (format!("etmetal-{version}-linux-x86_64.tar.zst"), "etmetal-2/bin/new"),
            (format!("etmetal-{version}-py3-none-manylinux_2_34_x86_64.whl"), "etmetal/a.py"),
        ];
        let sizes = [5_000_000, 800, 2000];
        let now: Vec<_> = now
            .iter()
            .zip(sizes)
            .map(|((name, path), size)| (name.as_str(), *path, size))
            .collect();
        let now = catalogue(version, &now);
        let before = catalogue(
            "0.0.9",
            &[
                ("etmetal-0.0.9-linux-x86_64.tar.zst", "etmetal-1/lib/libetmetal.so", 4_000_000),
                ("etmetal-0.0.9-linux-x86_64.tar.zst", "etmetal-1/bin/old", 100),
                ("etmetal-0.0.9-py3-none-manylinux_2_31_x86_64.whl", "etmetal/a.py", 2000),
            ],
        );
        let budgets = Budgets {
            archive: Some(parse("2MB").unwrap()),
            library: Some(5_000_000),
            ..Budgets::default()
        };
        let sizes = report(&now, &budgets, Some(&before));
        insta::assert_snapshot!(sizes.table.replace(version, "V"));
        assert_eq!(sizes.too_large.len(), 1, "{:?}", sizes.too_large);
        assert!(sizes.too_large[0].contains("tar.zst has 2.5 MB, its budget is 2.0 MB"));
        assert!(report(&now, &Budgets::default(), None).too_large.is_empty());
        for wrong in ["", "MB", "12 parsecs", "-1MB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
