//! The files that are written from the pipeline: GitHub's workflows and GitLab's child pipeline.
//!
//! Templates (`templates/`) have the shape; what they are filled with is a `Workflow`, or a
//! `GitlabJob` for each job. The same pipeline gives the same bytes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};
use serde::Serialize;

use super::changes::Dependencies;
use super::event::Event;
use super::pipeline::{Job, Pipeline, Step};
use super::plan::{Forge, Plan, PlannedJob, Request};
use super::run;

/// A file that is written from the pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// From the repository's root.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// What a workflow of GitHub is filled with.
#[derive(Debug, Serialize)]
struct Workflow<'a> {
    name: &'a str,
    /// The expression that gives the event's name.
    event: &'a str,
    /// The expression that gives the revision to compare with.
    since: Option<&'a str>,
    /// Whether a newer run ends an older one.
    cancels: &'a str,
    /// What is published is not made from caches, which other runs could have filled.
    caches: bool,
    /// Where the jobs of the workflow itself run.
    machine: &'a str,
    jobs: Vec<GithubJob<'a>>,
}

/// A job of a workflow: all its combinations.
#[derive(Debug, Serialize)]
struct GithubJob<'a> {
    name: &'a str,
    about: &'a str,
    needs: Vec<&'a str>,
    /// What its combinations have values for.
    keys: Vec<String>,
    /// Whether it wants a Python of its own.
    python: bool,
    /// What its caches are kept apart by.
    cache: String,
    steps: Vec<RenderedStep<'a>>,
    artifacts: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct RenderedStep<'a> {
    name: &'a str,
    run: &'a str,
}

/// A job of GitLab: one combination.
#[derive(Debug, Serialize)]
struct GitlabJob<'a> {
    id: &'a str,
    about: &'a str,
    stands_in_for: &'a [String],
    label: &'a str,
    timeout: u32,
    required: bool,
    needs: Vec<&'a str>,
    events: Vec<&'static str>,
    environment: Vec<(String, String)>,
    cache: String,
    steps: Vec<RenderedStep<'a>>,
    artifacts: Option<&'a str>,
}

/// Every file.
///
/// # Errors
/// The pipeline cannot be planned.
pub fn files(pipeline: &Pipeline, dependencies: &Dependencies) -> Result<Vec<Rendered>> {
    let environment = environment()?;
    let plan = Plan::new(pipeline, dependencies, &Request::default())?;
    let machine = machine(pipeline, &plan)?;
    let workflows = [
        (
            "ci",
            Workflow {
                name: "CI",
                event: "${{ github.event_name == 'pull_request' && 'pull-request' || 'push' }}",
                since: Some("${{ github.event.pull_request.base.sha || github.event.before }}"),
                cancels: "${{ github.event_name == 'pull_request' }}",
                caches: true,
                machine,
                jobs: github_jobs(pipeline, &plan, &[Event::PullRequest, Event::Push]),
            },
        ),
        (
            "nightly",
            Workflow {
                name: "Nightly",
                event: "nightly",
                since: None,
                cancels: "false",
                caches: true,
                machine,
                jobs: github_jobs(pipeline, &plan, &[Event::Nightly]),
            },
        ),
        (
            "release",
            Workflow {
                name: "Release",
                event: "tag",
                since: None,
                cancels: "false",
                caches: false,
                machine,
                jobs: github_jobs(pipeline, &plan, &[Event::Tag]),
            },
        ),
    ];
    let mut files = Vec::new();
    for (name, workflow) in workflows {
        let template = environment.get_template(&format!("{name}.yml.j2"))?;
        let text = template
            .render(context! {
                workflow => Serde(&workflow),
                action => Serde(&pipeline.action),
            })
            .with_context(|| format!("the workflow {name}"))?;
        let path = Path::new(".github/workflows").join(format!("{name}.yml"));
        files.push(Rendered { path, text });
    }
    let request = Request { forge: Forge::Gitlab, ..Request::default() };
    let plan = Plan::new(pipeline, dependencies, &request)?;
    let jobs = gitlab_jobs(pipeline, &plan);
    let text =
        environment.get_template("gitlab.yml.j2")?.render(context! { jobs => Serde(&jobs) })?;
    files.push(Rendered { path: PathBuf::from("ci/gitlab.yml"), text });
    Ok(files)
}

/// Those of `files` that the repository at `root` has otherwise, or not at all.
pub fn differing<'a>(root: &Path, files: &'a [Rendered]) -> Vec<&'a Rendered> {
    let differs = |file: &&Rendered| {
        std::fs::read_to_string(root.join(&file.path)).ok().as_ref() != Some(&file.text)
    };
    files.iter().filter(differs).collect()
}

/// Writes `file`, whole or not at all.
///
/// # Errors
/// It cannot be written.
pub fn write(root: &Path, file: &Rendered) -> Result<()> {
    let path = root.join(&file.path);
    let folder = path.parent().context("a file is in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(file.text.as_bytes())?;
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    temporary.as_file().set_permissions(permissions)?;
    temporary.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Templates with delimiters that neither workflows nor shells have.
fn environment() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .block_delimiters("<%", "%>")
            .variable_delimiters("<{", "}>")
            .comment_delimiters("<#", "#>")
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()?,
    );
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_filter("yaml", yaml);
    environment.add_template("actions.yml.j2", include_str!("templates/actions.yml.j2"))?;
    environment.add_template("job.yml.j2", include_str!("templates/job.yml.j2"))?;
    environment.add_template("workflow.yml.j2", include_str!("templates/workflow.yml.j2"))?;
    environment.add_template("ci.yml.j2", include_str!("templates/ci.yml.j2"))?;
    environment.add_template("nightly.yml.j2", include_str!("templates/nightly.yml.j2"))?;
    environment.add_template("release.yml.j2", include_str!("templates/release.yml.j2"))?;
    environment.add_template("gitlab.yml.j2", include_str!("templates/gitlab.yml.j2"))?;
    Ok(environment)
}

/// Text as a YAML scalar: as it is where that is safe, else in double quotes.
fn yaml(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./,".contains(c);
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && !["true", "false", "yes", "no", "on", "off", "null"]
            .contains(&text.to_ascii_lowercase().as_str());
    if safe { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// The machine for what is no job of the pipeline: the cheapest.
fn machine<'a>(pipeline: &Pipeline, plan: &'a Plan) -> Result<&'a str> {
    let weight = |job: &&&PlannedJob| {
        let runner = job.combination.text("runner").unwrap_or_default();
        pipeline.runner.get(&runner).map_or(0.0, |pool| pool.weight)
    };
    let jobs: Vec<_> = plan.jobs.iter().filter(|job| job.label.is_some()).collect();
    let cheapest = jobs.iter().min_by(|a, b| weight(a).total_cmp(&weight(b)));
    cheapest.and_then(|job| job.label.as_deref()).context("no job has a machine")
}

fn steps(steps: &[Step]) -> Vec<RenderedStep<'_>> {
    steps.iter().map(|step| RenderedStep { name: &step.name, run: step.run.trim() }).collect()
}

/// The jobs that any of `events` starts, and those that may stand in for them.
fn github_jobs<'a>(pipeline: &'a Pipeline, plan: &Plan, events: &[Event]) -> Vec<GithubJob<'a>> {
    let started = |job: &Job| {
        let mut jobs = plan.jobs.iter().filter(|planned| planned.job == job.name);
        job.events.is_empty() && stands_in(pipeline, plan, job, events)
            || jobs.any(|planned| events.iter().any(|event| planned.events.contains(event)))
    };
    let jobs: Vec<&Job> = pipeline.job.iter().filter(|job| started(job)).collect();
    let is_here = |name: &&String| jobs.iter().any(|job| job.name == **name);
    let github_job = |job: &&'a Job| {
        let planned = plan.jobs.iter().filter(|planned| planned.job == job.name);
        let environment = planned.flat_map(|planned| run::variables(pipeline, planned));
        let keys: BTreeSet<String> = environment.map(|(key, _)| key).collect();
        GithubJob {
            name: &job.name,
            about: job.about.trim_end_matches('.'),
            needs: job.needs.iter().filter(is_here).map(String::as_str).collect(),
            python: keys.contains("python"),
            cache: cache(&job.name, &keys),
            keys: keys.into_iter().collect(),
            steps: steps(&job.steps),
            artifacts: job.artifacts.as_deref(),
        }
    };
    jobs.iter().map(github_job).collect()
}

/// Builds are not alike on another machine, for another target, with another preset or Python.
fn cache(job: &str, keys: &BTreeSet<String>) -> String {
    let apart = ["runner", "target", "preset", "python"];
    let parts = apart.iter().filter(|key| keys.contains(**key));
    parts.fold(job.to_owned(), |cache, key| format!("{cache}-${{{{ matrix.{key} }}}}"))
}

/// Whether `job` may have to stand in for one that any of `events` starts.
fn stands_in(pipeline: &Pipeline, plan: &Plan, job: &Job, events: &[Event]) -> bool {
    plan.jobs.iter().any(|planned| {
        let runner = planned.combination.text("runner").unwrap_or_default();
        let pool = pipeline.runner.get(&runner);
        events.iter().any(|event| planned.events.contains(event))
            && pool.and_then(|pool| pool.stand_in.as_ref()) == Some(&job.name)
    })
}

fn gitlab_jobs<'a>(pipeline: &'a Pipeline, plan: &'a Plan) -> Vec<GitlabJob<'a>> {
    let gitlab_job = |planned: &'a PlannedJob| {
        let job = pipeline.job(&planned.job)?;
        let needed = plan.running().filter(|other| job.needs.contains(&other.job));
        let variables = run::variables(pipeline, planned).into_iter();
        let preset = planned.combination.text("preset");
        Some(GitlabJob {
            id: &planned.id,
            about: job.about.trim_end_matches('.'),
            stands_in_for: &planned.stands_in_for,
            label: planned.label.as_deref()?,
            timeout: planned.timeout,
            required: planned.required,
            needs: needed.map(|other| other.id.as_str()).collect(),
            events: planned.events.iter().map(|event| event.name()).collect(),
            environment: variables.map(|(key, value)| (run::variable(&key), value)).collect(),
            cache: [Some(job.name.clone()), preset]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("-"),
            steps: steps(&job.steps),
            artifacts: job.artifacts.as_deref(),
        })
    };
    plan.running().filter_map(gitlab_job).collect()
}

#[cfg(test)]
mod tests;
