//! The report as SARIF 2.1.0, which code hosts show beside the code.

use anyhow::Result;
use serde_json::{Value, json};

use super::finding::{Finding, Level};
use super::rules::{CONTAINER_RULES, RULES};
use super::{FileReport, Report};

/// The report as SARIF.
///
/// # Errors
/// Never in fact.
pub fn sarif(report: &Report) -> Result<String> {
    let rules = RULES.iter().map(|rule| (rule.id, rule.summary));
    let rules: Vec<Value> = CONTAINER_RULES
        .iter()
        .copied()
        .chain(rules)
        .map(|(id, summary)| json!({ "id": id, "shortDescription": { "text": summary } }))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "cargo xtask audit",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": report.files.iter().flat_map(results).collect::<Vec<_>>(),
        }],
    });
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

fn results(file: &FileReport) -> impl Iterator<Item = Value> {
    file.all_findings().map(|(label, finding)| result(file, label, finding))
}

fn result(file: &FileReport, label: Option<&str>, finding: &Finding) -> Value {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let place = label.map_or(String::new(), |label| format!("{label}: "));
    let fix = finding.fix.as_ref().map_or(String::new(), |fix| format!(" (fix: {fix})"));
    json!({
        "ruleId": finding.rule,
        "level": level,
        "message": { "text": format!("{place}{}{fix}", finding.message) },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri(&file.path) } },
        }],
    })
}

/// A path as a URI: relative paths stay relative.
fn uri(path: &std::path::Path) -> String {
    let mut text = String::new();
    for byte in path.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    if path.is_absolute() { format!("file://{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_become_results_of_known_rules() {
        let report = Report {
            files: vec![FileReport {
                path: "a b/x.so".into(),
                findings: vec![Finding::error("damaged", "cut off", "copy it again")],
                pieces: Vec::new(),
            }],
        };
        let log: Value = serde_json::from_str(&sarif(&report).unwrap()).unwrap();
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        let result = &run["results"][0];
        let known = run["tool"]["driver"]["rules"].as_array().unwrap();
        assert!(known.iter().any(|rule| rule["id"] == result["ruleId"]));
        assert_eq!(known.len(), RULES.len() + CONTAINER_RULES.len());
        insta::assert_snapshot!(serde_json::to_string_pretty(result).unwrap());
        assert_eq!(uri(std::path::Path::new("/x/é")), "file:///x/%C3%A9");
    }
}
