//! Results in the format of JUnit: pytest, nextest, ctest and others write it.

use anyhow::{Context as _, Result};
use roxmltree::{Document, Node};

/// One test's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// `class::name`.
    pub name: String,
    /// What is wrong, if it failed.
    pub failure: Option<String>,
    /// Whether it failed and then passed.
    pub passed_on_retry: bool,
    /// Whether it was not run.
    pub skipped: bool,
}

/// The results in `xml`.
///
/// # Errors
/// It is not XML, or has no test suites.
pub fn read(xml: &str) -> Result<Vec<Case>> {
    let document = Document::parse(xml).context("it is not XML")?;
    let root = document.root_element().tag_name().name();
    anyhow::ensure!(
        matches!(root, "testsuites" | "testsuite"),
        "it has no test suites: its root is <{root}>"
    );
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    Ok(cases.map(case).collect())
}

fn case(node: Node<'_, '_>) -> Case {
    let child =
        |names: &[&str]| node.children().find(|child| names.contains(&child.tag_name().name()));
    let name = node.attribute("name").unwrap_or_default();
    let class = node.attribute("classname").filter(|class| !class.is_empty());
    Case {
        name: class.map_or_else(|| name.to_owned(), |class| format!("{class}::{name}")),
        failure: child(&["failure", "error"]).map(message),
        passed_on_retry: child(&["flakyFailure", "flakyError"]).is_some(),
        skipped: child(&["skipped"]).is_some(),
    }
}

/// The first line of what is wrong.
fn message(node: Node<'_, '_>) -> String {
    let text = node.attribute("message").filter(|text| !text.trim().is_empty());
    let text = text.or_else(|| node.text()).unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.or_else(|| node.attribute("type")).unwrap_or("failed").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let cases = read(include_str!("../../../testdata/triage/pytest.xml")).unwrap();
        let shown: Vec<_> = cases
            .iter()
            .map(|case| format!("{} {:?} {}", case.name, case.failure, case.skipped))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        tests.test_export::test_shapes None false
        tests.test_export::test_shapes Some("AssertionError: assert [1, 2] == [1, 3]") false
        tests.test_export::test_flaky None false
        tests.test_export::test_flaky None false
        tests.test_export::test_ok None false
        tests.test_export::test_mac None true
        tests.test_export::test_model None false
        tests.test_export::test_model Some("failed on setup with \"OSError: no model.pte\"") false
        "#);
        let cases = read(include_str!("../../../testdata/triage/nextest.xml")).unwrap();
        let shown: Vec<_> = cases
            .iter()
            .map(|case| format!("{} {:?} {}", case.name, case.failure, case.passed_on_retry))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        etmetal::stream::tests::a_wait_ends None true
        etmetal::tensor::tests::strides None false
        etmetal::models::mlp_is_right Some("thread 'mlp_is_right' panicked at tests/tests/models.rs:41:5") false
        "#);
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert_eq!(read("<a").unwrap_err().to_string(), "it is not XML");
        let error = read("<html/>").unwrap_err().to_string();
        assert_eq!(error, "it has no test suites: its root is <html>");
    }
}
