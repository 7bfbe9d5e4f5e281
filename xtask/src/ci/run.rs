//! A job on this machine: its steps, in the order and the environment that they have there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use super::matrix::text;
use super::pipeline::{Job, Pipeline};
use super::plan::{Plan, PlannedJob};
use crate::preset::schema;
use crate::process::{Invocation, status};

/// What the steps of a job know about its combination: names (as `preset`) with values. With a
/// shard comes the count of shards.
pub fn variables(pipeline: &Pipeline, planned: &PlannedJob) -> Vec<(String, String)> {
    let mut variables: Vec<_> =
        planned.combination.0.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    if planned.combination.get("shard").is_some() {
        let matrix = pipeline.job(&planned.job).map(|job| job.matrix.matrix());
        let axes = matrix.map(|matrix| matrix.axes).unwrap_or_default();
        let count = axes.iter().find(|(name, _)| name == "shard").map_or(1, |(_, v)| v.len());
        variables.push(("shards".to_owned(), count.to_string()));
    }
    variables.sort();
    variables
}

/// The environment variable of a value of the combination, as `MATRIX_PRESET`.
pub fn variable(key: &str) -> String {
    format!("MATRIX_{}", key.to_ascii_uppercase())
}

/// The job of `plan` that `name` means: its id, or the name of a job that has one combination.
///
/// # Errors
/// There is none, or there are several.
pub fn find<'a>(plan: &'a Plan, name: &str) -> Result<&'a PlannedJob> {
    if let Some(planned) = plan.jobs.iter().find(|planned| planned.id == name) {
        return Ok(planned);
    }
    let inside = format!("{}/", name.trim_end_matches('/'));
    let several: Vec<_> = plan.jobs.iter().filter(|job| job.id.starts_with(&inside)).collect();
    match several[..] {
        [one] => Ok(one),
        [] => {
            let ids = plan.jobs.iter().flat_map(|job| [job.id.clone(), job.job.clone()]);
            let ids: BTreeSet<String> = ids.collect();
            bail!("there is no job `{name}`{}", schema::suggestion(name, ids))
        }
        _ => {
            let ids: Vec<_> = several.iter().map(|job| job.id.as_str()).collect();
            bail!("`{name}` is several jobs: name one of {}", ids.join(", "))
        }
    }
}

/// The steps of `planned` as commands, each with its name.
///
/// # Errors
/// The Python that it wants is not here.
pub fn commands(
    root: &Path,
    pipeline: &Pipeline,
    planned: &PlannedJob,
) -> Result<Vec<(String, Invocation)>> {
    let job: &Job = pipeline.job(&planned.job).context("a planned job is in the file")?;
    let mut bash =
        Invocation::new("bash").args(["--noprofile", "--norc", "-eo", "pipefail", "-c"]).cwd(root);
    for (key, value) in variables(pipeline, planned) {
        bash = bash.env(&variable(&key), value);
    }
    if let Some(version) = planned.combination.text("python") {
        let name = format!("python{version}");
        let python = which::which(&name).with_context(|| {
            format!("`{}` wants Python {version}, and `{name}` is not in PATH", planned.id)
        })?;
        bash = bash.env("ETMETAL_PYTHON", python);
    }
    let command = |run: &str| bash.clone().arg(run.trim());
    Ok(job.steps.iter().map(|step| (step.name.clone(), command(&step.run))).collect())
}

/// Does `commands` up to the first that fails.
///
/// # Errors
/// bash cannot be started.
pub fn run(commands: &[(String, Invocation)]) -> Result<ExitCode> {
    ensure!(!commands.is_empty(), "there is nothing to do");
    for (index, (name, command)) in commands.iter().enumerate() {
        println!("== {}/{} {name}", index + 1, commands.len());
        let ended = command.run_lines(|line| {
            println!("{line}");
            Ok(())
        })?;
        if !ended.success() {
            println!("failed: {name} ({})", status(ended));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::changes::tests::dependencies;
    use crate::ci::plan::Request;
    use crate::ci::plan::tests::PIPELINE;

    fn planned(pipeline: &Pipeline) -> Plan {
        Plan::new(pipeline, &dependencies(pipeline), &Request::default()).unwrap()
    }

    #[test]
    fn steps_run_in_order_with_the_combination_in_the_environment() {
        let steps = "steps = [{ name = \"One\", run = \"echo $MATRIX_PRESET >>log\" }, \
                     { name = \"Two\", run = \"echo $MATRIX_SHARD/$MATRIX_SHARDS >>log\" }, \
                     { name = \"Three\", run = \"false | true; echo no >>log\" }, \
                     { name = \"Four\", run = \"echo no >>log\" }]";
        let old = "steps = [{ name = \"Test\", run = \"echo $MATRIX_PRESET \
                   $MATRIX_SHARD/$MATRIX_SHARDS\" }]";
        let text = PIPELINE
            .replace(old, steps)
            .replace("preset = [\"metal\", \"tiny\"]", "preset = [\"metal\"]\nshard = [1, 2, 3]")
            .replace("exclude = [{ runner = \"mac\", preset = \"tiny\" }]", "");
        let pipeline = Pipeline::parse(&text).unwrap();
        let plan = planned(&pipeline);
        let folder = tempfile::tempdir().unwrap();
        let job = find(&plan, "test/linux/metal/2").unwrap();
        let commands = commands(folder.path(), &pipeline, job).unwrap();
        assert_eq!(run(&commands).unwrap(), ExitCode::FAILURE, "pipefail");
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log, "metal\n2/3\n");
        assert_eq!(run(&commands[..2]).unwrap(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_job_is_found_by_its_id_or_by_a_name_that_is_clear() {
        let pipeline = Pipeline::parse(PIPELINE).unwrap();
        let plan = planned(&pipeline);
        assert_eq!(find(&plan, "lint").unwrap().id, "lint/linux");
        assert_eq!(find(&plan, "test/mac").unwrap().id, "test/mac/metal");
        let fault = |name| find(&plan, name).unwrap_err().to_string();
        insta::assert_snapshot!([fault("test"), fault("lnit"), fault("li")].join("\n"), @"
        `test` is several jobs: name one of test/linux/metal, test/linux/tiny, test/mac/metal
        there is no job `lnit`; did you mean `lint`?
        there is no job `li`; known here: cross, cross/linux/aarch64-apple-darwin, lint, lint/linux, test, test/linux/metal, test/linux/tiny, test/mac/metal
        ");
    }

    #[test]
    fn a_python_that_is_not_here_is_told_before_anything_runs() {
        let text = PIPELINE.replacen(
            "matrix.runner = [\"linux\"]",
            "matrix = { runner = [\"linux\"], python = [\"3.99\"] }",
            1,
        );
        let pipeline = Pipeline::parse(&text).unwrap();
        let plan = planned(&pipeline);
        let error = commands(Path::new("/"), &pipeline, find(&plan, "lint").unwrap());
        insta::assert_snapshot!(error.unwrap_err(), @"`lint/linux/3.99` wants Python 3.99, and `python3.99` is not in PATH");
    }
}
