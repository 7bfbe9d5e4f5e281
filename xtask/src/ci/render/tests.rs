use serde_json::Value as Json;

use super::*;

const GITHUB: &str = include_str!("../../../testdata/schemas/github-workflow.json");
const GITLAB: &str = include_str!("../../../testdata/schemas/gitlab-ci.json");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn rendered() -> (Pipeline, Vec<Rendered>) {
    let pipeline = Pipeline::read(root()).unwrap();
    let dependencies = Dependencies::read(root(), &pipeline).unwrap();
    let files = files(&pipeline, &dependencies).unwrap();
    (pipeline, files)
}

fn json(text: &str) -> Json {
    yaml_serde::from_str(text).unwrap()
}

fn is_workflow(file: &&Rendered) -> bool {
    file.path.starts_with(".github/workflows")
}

/// Every step of every job of a workflow.
fn all_steps(workflow: &Json) -> Vec<&Json> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap()).collect()
}

fn faults(schema: &str, document: &Json) -> Vec<String> {
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let shown = |fault: jsonschema::ValidationError| format!("{}: {fault}", fault.instance_path());
    validator.iter_errors(document).map(shown).collect()
}

#[test]
fn the_committed_files_are_what_the_pipeline_gives() {
    let (_, files) = rendered();
    let differing: Vec<_> = differing(root(), &files).iter().map(|file| &file.path).collect();
    assert!(differing.is_empty(), "{differing:?}: run `cargo xtask ci render`");
    assert_eq!(rendered().1, files, "the same again");
}

#[test]
fn workflows_and_pipeline_are_valid_by_their_schemas() {
    let (_, files) = rendered();
    assert_eq!(files.iter().filter(is_workflow).count(), 3);
    for file in &files {
        let schema = if is_workflow(&file) { GITHUB } else { GITLAB };
        let faults = faults(schema, &json(&file.text));
        assert!(faults.is_empty(), "{}: {}", file.path.display(), faults.join("\n"));
    }
}

#[test]
fn the_schemas_find_what_is_wrong() {
    let (_, files) = rendered();
    let ci = &files[0].text;
    let wrong = |from: &str, to: &str| {
        assert!(ci.contains(from), "{from}");
        faults(GITHUB, &json(&ci.replacen(from, to, 1)))
    };
    assert!(!wrong("    runs-on: ", "    runs-at: ").is_empty());
    assert!(!wrong("  contents: read", "  contents: all").is_empty());
    assert!(!wrong("pull_request:", "pull_requests:").is_empty());
    let gitlab = files.iter().find(|file| !is_workflow(file)).unwrap();
    let text = gitlab.text.replacen("allow_failure: false", "allow_failure: never", 1);
    assert!(!faults(GITLAB, &json(&text)).is_empty());
}

#[test]
fn actions_are_pinned_and_each_is_one_of_the_pipeline() {
    let (pipeline, files) = rendered();
    let pins: Vec<_> =
        pipeline.action.values().map(|a| format!("{}@{}", a.uses, a.commit)).collect();
    let mut used = BTreeSet::new();
    for file in files.iter().filter(is_workflow) {
        let workflow = json(&file.text);
        for uses in all_steps(&workflow).iter().filter_map(|step| step["uses"].as_str()) {
            assert!(pins.iter().any(|pin| pin == uses), "{}: {uses}", file.path.display());
            used.insert(uses.to_owned());
        }
    }
    assert_eq!(used.len(), pins.len(), "an action is pinned that nothing uses");
}

#[test]
fn permissions_are_the_least() {
    let (_, files) = rendered();
    for file in files.iter().filter(is_workflow) {
        let workflow = json(&file.text);
        assert_eq!(workflow["permissions"], serde_json::json!({ "contents": "read" }));
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            let own = job.get("permissions");
            if name == "publish" {
                let right = serde_json::json!({
                    "contents": "write", "id-token": "write", "attestations": "write",
                });
                assert_eq!(own, Some(&right));
            } else {
                let none = own.is_none_or(|own| *own == serde_json::json!({}));
                assert!(none, "{}: {name}", file.path.display());
            }
        }
        for step in all_steps(&workflow) {
            if step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@")) {
                assert_eq!(step["with"]["persist-credentials"], false);
            }
            // What comes from outside goes through the environment, not into the script.
            assert!(!step["run"].as_str().unwrap_or_default().contains("${{"), "{step}");
        }
    }
}

#[test]
fn jobs_need_only_jobs_that_are_there_and_everything_has_a_limit() {
    let (_, files) = rendered();
    for file in files.iter().filter(is_workflow) {
        let workflow = json(&file.text);
        assert!(workflow["concurrency"]["group"].is_string());
        let jobs = workflow["jobs"].as_object().unwrap();
        for (name, job) in jobs {
            let needs = job.get("needs").and_then(Json::as_array);
            for need in needs.into_iter().flatten() {
                assert!(jobs.contains_key(need.as_str().unwrap()), "{name} needs {need}");
            }
            assert!(!job["timeout-minutes"].is_null(), "{name}");
        }
        let required: Vec<_> = jobs["required"]["needs"].as_array().unwrap().iter().collect();
        let others = jobs.keys().filter(|name| !["required", "publish"].contains(&name.as_str()));
        others.for_each(|name| assert!(required.contains(&&Json::from(name.as_str())), "{name}"));
    }
}

#[test]
fn caches_are_keyed_by_lock_files_and_presets_and_a_release_has_none() {
    let (_, files) = rendered();
    for file in files.iter().filter(is_workflow) {
        let workflow = json(&file.text);
        let keys: Vec<_> =
            all_steps(&workflow).iter().filter_map(|step| step["with"]["key"].as_str()).collect();
        if file.path.ends_with("release.yml") {
            assert!(keys.is_empty(), "{keys:?}");
            continue;
        }
        assert!(!keys.is_empty());
        for key in keys {
            let hash = "${{ hashFiles('Cargo.lock', 'xtask/lock/*.txt', 'presets/*.toml') }}";
            assert!(key.ends_with(hash), "{key}");
        }
    }
}

#[test]
fn a_release_is_attested_and_has_checksums() {
    let (_, files) = rendered();
    let release = files.iter().find(|file| file.path.ends_with("release.yml")).unwrap();
    let workflow = json(&release.text);
    let steps = workflow["jobs"]["publish"]["steps"].as_array().unwrap();
    let position = |word: &str| {
        let found = steps.iter().position(|step| step.to_string().contains(word));
        found.unwrap_or_else(|| panic!("no step has {word}"))
    };
    assert!(position("sha256sum") < position("attest-build-provenance"));
    assert!(position("attest-build-provenance") < position("gh release create"));
}

#[test]
fn a_job_runs_what_ci_run_does_here() {
    let (pipeline, files) = rendered();
    for file in files.iter().filter(is_workflow) {
        let workflow = json(&file.text);
        for job in &pipeline.job {
            let Some(there) = workflow["jobs"].get(&job.name) else { continue };
            let names: Vec<_> = job.steps.iter().map(|step| step.name.as_str()).collect();
            let steps = there["steps"].as_array().unwrap();
            let own: Vec<_> = steps
                .iter()
                .filter(|step| names.contains(&step["name"].as_str().unwrap()))
                .map(|step| step["run"].as_str().unwrap().trim().to_owned())
                .collect();
            let right: Vec<_> = job.steps.iter().map(|step| step.run.trim().to_owned()).collect();
            assert_eq!(own, right, "{}: {}", file.path.display(), job.name);
        }
    }
}

#[test]
fn gitlab_has_no_mac_and_says_what_stands_in() {
    let (_, files) = rendered();
    let gitlab = files.iter().find(|file| !is_workflow(file)).unwrap();
    assert!(gitlab.text.contains("It stands in for unit/macos-arm64/metal."));
    let jobs = json(&gitlab.text);
    assert!(jobs.get("unit/macos-arm64/metal").is_none());
    let cross = &jobs["macos-cross/linux-x64/aarch64-apple-darwin"];
    assert_eq!(cross["rules"][0]["if"], "$ETMETAL_EVENT =~ /^(nightly)$/");
}

#[test]
fn text_that_yaml_could_misread_is_quoted() {
    for (text, right) in [
        ("Build and test", "Build and test"),
        ("3.10", "\"3.10\""),
        ("on", "\"on\""),
        ("a: b", "\"a: b\""),
        ("- x", "\"- x\""),
        ("quote \" and # hash", "\"quote \\\" and # hash\""),
        ("", "\"\""),
    ] {
        assert_eq!(yaml(text), right);
        assert_eq!(json(&format!("x: {right}"))["x"], text);
    }
}

#[test]
fn check_finds_a_file_that_was_edited_and_writing_mends_it() {
    let (_, files) = rendered();
    let folder = tempfile::tempdir().unwrap();
    let found = |folder: &Path| differing(folder, &files).len();
    assert_eq!(found(folder.path()), files.len());
    files.iter().for_each(|file| write(folder.path(), file).unwrap());
    assert_eq!(found(folder.path()), 0);
    std::fs::write(folder.path().join(&files[1].path), "name: mine\n").unwrap();
    assert_eq!(differing(folder.path(), &files), [&files[1]]);
}
