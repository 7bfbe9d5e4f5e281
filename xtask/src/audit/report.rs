//! The report as a table for people, and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::finding::{Finding, Level};
use super::image::{Format, Image, Kind};
use super::resolve::{Edge, Found};
use super::signature::{Signature, Signer};
use super::{FileReport, PieceReport, Report, shim};

/// The report for people. Without `details` it is only what was found.
pub fn table(report: &Report, details: bool) -> String {
    let mut text = String::new();
    for file in &report.files {
        table_of_file(&mut text, file, details);
    }
    let errors = count(report.count(Level::Error), "error");
    let warnings = count(report.count(Level::Warning), "warning");
    let notes = count(report.count(Level::Note), "note");
    let files = count(report.files.len(), "file");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "{files} audited: {errors}, {warnings}, {notes}");
    text
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn table_of_file(text: &mut String, file: &FileReport, details: bool) {
    let path = file.path.display();
    if file.pieces.is_empty() {
        let _ = writeln!(text, "{path}");
    }
    findings(text, &file.findings, details);
    for piece in &file.pieces {
        match &piece.label {
            Some(label) => {
                let _ = writeln!(text, "{path}, {label}: {}", piece.image);
            }
            None => {
                let _ = writeln!(text, "{path}: {}", piece.image);
            }
        }
        if details {
            facts(text, piece);
        }
        findings(text, &piece.findings, details);
    }
}

fn findings(text: &mut String, findings: &[Finding], details: bool) {
    for finding in findings.iter().filter(|f| details || f.level > Level::Note) {
        let level = finding.level.to_string();
        let _ = writeln!(text, "  {level:<8} {:<17} {}", finding.rule, finding.message);
        if let Some(fix) = &finding.fix {
            let _ = writeln!(text, "  {:<8} {:<17} fix: {fix}", "", "");
        }
    }
}

/// Lines of `name  value`, the name only on the first of its kind.
fn facts(text: &mut String, piece: &PieceReport) {
    let image = &piece.image;
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<10} {value}");
    };
    if let Some(name) = &image.name {
        line("name", name);
    }
    let edges: Vec<_> = piece.closure.direct().collect();
    let width = edges.iter().map(|edge| edge.name.len()).max().unwrap_or(0);
    for (index, edge) in edges.iter().enumerate() {
        let weak = if edge.weak { " (weak)" } else { "" };
        let name = if index == 0 { "libraries" } else { "" };
        line(name, &format!("{:<width$}  {}{weak}", edge.name, found(edge)));
    }
    for (index, rpath) in image.rpaths.iter().enumerate() {
        line(if index == 0 { "rpaths" } else { "" }, rpath);
    }
    line("symbols", &symbols(image));
    if let Some(signature) = &image.signature {
        line("signature", &signed(signature));
    }
}

fn found(edge: &Edge) -> String {
    match &edge.found {
        Found::File(file) => file.display().to_string(),
        Found::System => "of the system".to_owned(),
        Found::Missing(_) => "MISSING".to_owned(),
        Found::WrongArchitecture(file, _) => format!("{} (another processor)", file.display()),
        Found::Unknown(_) => "not looked for".to_owned(),
    }
}

fn symbols(image: &Image) -> String {
    let ours = |name: &&String| shim::is_of_models(name);
    let of_abi = image.exports.iter().filter(ours).count();
    let calls = image.imports.iter().filter(|i| shim::is_of_models(&i.name)).count();
    let mut text = format!("{} exported", image.exports.len());
    if of_abi > 0 {
        let _ = write!(text, " ({of_abi} of the C ABI of models)");
    }
    let _ = write!(text, ", {} left to others", image.imports.len());
    if calls > 0 {
        let _ = write!(text, " ({calls} to the C ABI of models)");
    }
    text
}

fn signed(signature: &Signature) -> String {
    let who = match signature.signer {
        Signer::Nobody => return "none".to_owned(),
        Signer::Linker => "ad hoc, by the linker",
        Signer::AdHoc => "ad hoc",
        Signer::Identity => "with a certificate",
    };
    let changed = signature.changed_pages.len();
    let pages = count(signature.pages, "page");
    let state = match changed {
        0 => "unchanged".to_owned(),
        changed => format!("{changed} changed"),
    };
    format!("{who}, as {}; {pages}, {state}", signature.identifier)
}

#[derive(Serialize)]
struct JsonReport<'a> {
    ok: bool,
    errors: usize,
    warnings: usize,
    notes: usize,
    files: Vec<JsonFile<'a>>,
}

#[derive(Serialize)]
struct JsonFile<'a> {
    path: String,
    findings: &'a [Finding],
    images: Vec<JsonImage<'a>>,
}

#[derive(Serialize)]
struct JsonImage<'a> {
    label: Option<&'a str>,
    format: Format,
    architecture: &'a str,
    kind: Kind,
    name: Option<&'a str>,
    minimum_os: Option<&'a super::image::Platform>,
    libraries: Vec<JsonLibrary<'a>>,
    rpaths: &'a [String],
    exports: usize,
    imports: usize,
    signature: Option<&'a Signature>,
    findings: &'a [Finding],
}

#[derive(Serialize)]
struct JsonLibrary<'a> {
    name: &'a str,
    weak: bool,
    found: &'static str,
    path: Option<String>,
}

/// The report as JSON.
///
/// # Errors
/// Never in fact.
pub fn json(report: &Report) -> Result<String> {
    let report = JsonReport {
        ok: report.is_good(),
        errors: report.count(Level::Error),
        warnings: report.count(Level::Warning),
        notes: report.count(Level::Note),
        files: report.files.iter().map(json_file).collect(),
    };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

fn json_file(file: &FileReport) -> JsonFile<'_> {
    JsonFile {
        path: file.path.display().to_string(),
        findings: &file.findings,
        images: file.pieces.iter().map(json_image).collect(),
    }
}

fn json_image(piece: &PieceReport) -> JsonImage<'_> {
    let image = &piece.image;
    JsonImage {
        label: piece.label.as_deref(),
        format: image.format,
        architecture: &image.architecture,
        kind: image.kind,
        name: image.name.as_deref(),
        minimum_os: image.platform.as_ref(),
        libraries: piece.closure.direct().map(json_library).collect(),
        rpaths: &image.rpaths,
        exports: image.exports.len(),
        imports: image.imports.len(),
        signature: image.signature.as_ref(),
        findings: &piece.findings,
    }
}

fn json_library(edge: &Edge) -> JsonLibrary<'_> {
    let (found, path) = match &edge.found {
        Found::File(file) => ("file", Some(file.display().to_string())),
        Found::System => ("system", None),
        Found::Missing(_) => ("missing", None),
        Found::WrongArchitecture(file, _) => {
            ("wrong-architecture", Some(file.display().to_string()))
        }
        Found::Unknown(_) => ("unknown", None),
    };
    JsonLibrary { name: &edge.name, weak: edge.weak, found, path }
}
