//! The jobs of a pipeline: which there are, which run, and why.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

use super::changes::{Changes, Dependencies};
use super::event::Event;
use super::matrix::{Combination, text};
use super::pipeline::{Job, Pipeline};

/// GitHub starts no more jobs of a matrix in one run.
pub const MOST_JOBS: usize = 256;

/// Whose machines run the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Forge {
    /// GitHub Actions.
    #[default]
    Github,
    /// GitLab CI.
    Gitlab,
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// What happened; nothing: every event.
    pub event: Option<Event>,
    /// What changed; nothing: do not look at changes.
    pub changes: Option<Changes>,
    /// Whose machines.
    pub forge: Forge,
    /// Runners (labels, or pools) that cannot be had.
    pub without: Vec<String>,
}

/// Whether a job runs, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Whether it runs.
    pub runs: bool,
    /// Why, or why not.
    pub reason: String,
}

impl Decision {
    fn no(reason: impl Into<String>) -> Self {
        Self { runs: false, reason: reason.into() }
    }

    fn yes(reason: impl Into<String>) -> Self {
        Self { runs: true, reason: reason.into() }
    }
}

/// One job: a combination of a job's matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedJob {
    /// The job's name and its values of axes, as `test/linux-x64`.
    pub id: String,
    /// The job in `pipeline.toml`.
    pub job: String,
    /// The values.
    pub combination: Combination,
    /// The label of the machine; nothing: none can be had.
    pub label: Option<String>,
    /// What starts it.
    pub events: BTreeSet<Event>,
    /// Whether its failure is a failure of the whole.
    pub required: bool,
    /// Minutes after which it is ended.
    pub timeout: u32,
    /// Expected minutes, times the weight of its machine.
    pub cost: f64,
    /// The jobs in whose stead it runs.
    pub stands_in_for: Vec<String>,
    /// Whether it runs.
    pub decision: Decision,
}

/// All jobs, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The jobs.
    pub jobs: Vec<PlannedJob>,
    /// What the matrices exclude: an id and why.
    pub excluded: Vec<(String, String)>,
}

impl Plan {
    /// Decides about every job.
    ///
    /// # Errors
    /// Two jobs have one id, or more run than GitHub would start.
    pub fn new(
        pipeline: &Pipeline,
        dependencies: &Dependencies,
        request: &Request,
    ) -> Result<Self> {
        let mut plan = Self { jobs: Vec::new(), excluded: Vec::new() };
        for job in &pipeline.job {
            let matrix = job.matrix.matrix();
            let axes: Vec<&str> = matrix.axes.iter().map(|(name, _)| name.as_str()).collect();
            let expansion = matrix.expand().with_context(|| format!("job `{}`", job.name))?;
            for (combination, entry) in expansion.excluded {
                let id = id(&job.name, &axes, &combination);
                plan.excluded.push((id, format!("job.matrix.exclude[{entry}] matches it")));
            }
            for combination in expansion.combinations {
                let id = id(&job.name, &axes, &combination);
                plan.jobs.push(planned(pipeline, job, id, combination, request));
            }
        }
        let mut ids = BTreeSet::new();
        if let Some(twin) = plan.jobs.iter().find(|job| !ids.insert(&job.id)) {
            bail!("two jobs would be called `{}`: their axes have the same values", twin.id);
        }
        plan.decide(pipeline, dependencies, request)?;
        plan.stand_in(pipeline);
        plan.within_limit(request.event)?;
        Ok(plan)
    }

    /// The jobs that run.
    pub fn running(&self) -> impl Iterator<Item = &PlannedJob> {
        self.jobs.iter().filter(|job| job.decision.runs)
    }

    /// The jobs that run, by the name in `pipeline.toml`.
    pub fn by_job(&self) -> BTreeMap<&str, Vec<&PlannedJob>> {
        let mut by_job = BTreeMap::<_, Vec<_>>::new();
        self.running().for_each(|job| by_job.entry(job.job.as_str()).or_default().push(job));
        by_job
    }

    fn decide(
        &mut self,
        pipeline: &Pipeline,
        dependencies: &Dependencies,
        request: &Request,
    ) -> Result<()> {
        for planned in &mut self.jobs {
            let job = pipeline.job(&planned.job).context("a planned job is in the file")?;
            planned.decision = decide(job, planned, dependencies, request)?;
        }
        Ok(())
    }

    /// Lets stand-ins run for those jobs that would run but have no machine.
    fn stand_in(&mut self, pipeline: &Pipeline) {
        let mut replaced = BTreeMap::<String, (Vec<String>, BTreeSet<Event>)>::new();
        for planned in &mut self.jobs {
            if planned.label.is_some() || !planned.decision.runs {
                continue;
            }
            let runner = planned.combination.text("runner").unwrap_or_default();
            let stand_in = pipeline.runner.get(&runner).and_then(|pool| pool.stand_in.clone());
            planned.decision = Decision::no(match &stand_in {
                Some(other) => format!("no `{runner}` machine can be had: {other} stands in"),
                None => format!("no `{runner}` machine can be had"),
            });
            if let Some(other) = stand_in {
                let (jobs, events) = replaced.entry(other).or_default();
                jobs.push(planned.id.clone());
                events.extend(&planned.events);
            }
        }
        for planned in &mut self.jobs {
            let job = pipeline.job(&planned.job);
            if !job.is_some_and(|job| job.events.is_empty()) {
                continue;
            }
            let runs = planned.label.is_some();
            if let Some((jobs, events)) = replaced.get(&planned.job).filter(|_| runs) {
                planned.decision = Decision::yes(format!("stands in for {}", jobs.join(", ")));
                planned.stands_in_for.clone_from(jobs);
                planned.events.clone_from(events);
            }
        }
    }

    fn within_limit(&self, event: Option<Event>) -> Result<()> {
        for event in event.map_or_else(|| Event::ALL.to_vec(), |event| vec![event]) {
            let jobs: Vec<_> = self.running().filter(|job| job.events.contains(&event)).collect();
            if jobs.len() <= MOST_JOBS {
                continue;
            }
            let mut sizes = BTreeMap::<&str, usize>::new();
            jobs.iter().for_each(|job| *sizes.entry(&job.job).or_default() += 1);
            let (largest, size) = sizes.iter().max_by_key(|(_, size)| **size).context("jobs")?;
            let of_largest = || jobs.iter().filter(|job| job.job == **largest);
            let mut axes = BTreeMap::<&str, BTreeSet<String>>::new();
            for (name, value) in of_largest().flat_map(|job| &job.combination.0) {
                axes.entry(name).or_default().insert(text(value));
            }
            let widest = axes.iter().max_by_key(|(_, values)| values.len()).context("axes")?;
            bail!(
                "{} jobs would run {}, and {MOST_JOBS} is the most: `{largest}` has {size} of \
                 them; cut its axis `{}`, which has {} values",
                jobs.len(),
                event.on(),
                widest.0,
                widest.1.len()
            );
        }
        Ok(())
    }
}

/// The job's name, then its values of `axes` (of all names, where an include entry made it).
fn id(job: &str, axes: &[&str], combination: &Combination) -> String {
    let named = |(name, _): &&(String, _)| axes.contains(&name.as_str());
    let values = combination.0.iter().filter(named).map(|(_, value)| text(value));
    let values: Vec<String> = values.collect();
    format!("{job}/{}", values.join("/"))
}

fn planned(
    pipeline: &Pipeline,
    job: &Job,
    id: String,
    combination: Combination,
    request: &Request,
) -> PlannedJob {
    let runner = combination.text("runner").unwrap_or_default();
    let pool = pipeline.runner.get(&runner);
    let rules: Vec<_> = job.rule.iter().filter(|rule| combination.matches(&rule.when)).collect();
    let minutes = rules.iter().rev().find_map(|rule| rule.minutes).unwrap_or(job.minutes);
    let labels = pool.map_or(&[][..], |pool| match request.forge {
        Forge::Github => &pool.github,
        Forge::Gitlab => &pool.gitlab,
    });
    let had = |label: &&String| !request.without.contains(label);
    let label = labels.iter().find(had).filter(|_| !request.without.contains(&runner));
    PlannedJob {
        id,
        job: job.name.clone(),
        label: label.cloned(),
        events: rules
            .iter()
            .rev()
            .find_map(|rule| rule.events.clone())
            .unwrap_or_else(|| job.events.clone()),
        required: rules.iter().rev().find_map(|rule| rule.required).unwrap_or(job.required),
        timeout: rules.iter().rev().find_map(|rule| rule.timeout).unwrap_or(job.timeout),
        cost: minutes * pool.map_or(1.0, |pool| pool.weight),
        stands_in_for: Vec::new(),
        decision: Decision::no("not decided"),
        combination,
    }
}

fn decide(
    job: &Job,
    planned: &PlannedJob,
    dependencies: &Dependencies,
    request: &Request,
) -> Result<Decision> {
    let preset = planned.combination.text("preset");
    if let Some(name) = &preset {
        ensure!(dependencies.has_preset(name), "`{}`: there is no preset `{name}`", planned.id);
    }
    if job.events.is_empty() {
        return Ok(Decision::no("only stands in for others"));
    }
    if request.forge == Forge::Gitlab && !job.gitlab {
        return Ok(Decision::no("not in GitLab's pipeline"));
    }
    let events: Vec<_> = planned.events.iter().map(|event| event.on()).collect();
    let events = events.join(", ");
    let starts = match request.event {
        Some(event) if !planned.events.contains(&event) => {
            return Ok(Decision::no(format!("runs only {events}")));
        }
        Some(event) => format!("runs {}", event.on()),
        None => format!("runs {events}"),
    };
    match &request.changes {
        None => Ok(Decision::yes(starts)),
        Some(Changes::All(reason)) => Ok(Decision::yes(format!("{starts}; {reason}"))),
        Some(Changes::Files(files)) => {
            for file in files {
                if let Some(reason) = dependencies.reason(file, &job.paths, preset.as_deref())? {
                    return Ok(Decision::yes(reason));
                }
            }
            Ok(Decision::no("nothing that it depends on changed"))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ci::changes::tests::dependencies;

    pub(crate) const PIPELINE: &str = r#"
        [action]
        [runner.linux]
        github = ["ubuntu-24.04"]
        gitlab = ["small"]
        [runner.mac]
        github = ["macos-15", "macos-14"]
        weight = 10
        stand-in = "cross"
        [paths]
        everything = ["Cargo.lock"]
        nothing = ["*.md"]
        [[job]]
        name = "lint"
        about = "Lints"
        events = ["pull-request", "push"]
        timeout = 10
        minutes = 2
        steps = [{ name = "Lint", run = "true" }]
        matrix.runner = ["linux"]
        [[job]]
        name = "test"
        about = "Tests"
        events = ["pull-request", "push", "nightly"]
        needs = ["lint"]
        timeout = 60
        minutes = 20
        paths.crates = ["app"]
        steps = [{ name = "Test", run = "echo $MATRIX_PRESET $MATRIX_SHARD/$MATRIX_SHARDS" }]
        [job.matrix]
        preset = ["metal", "tiny"]
        runner = ["linux", "mac"]
        exclude = [{ runner = "mac", preset = "tiny" }]
        [[job.rule]]
        when = { runner = "mac" }
        events = ["nightly"]
        required = false
        timeout = 90
        [[job]]
        name = "cross"
        about = "Checks for macOS on Linux"
        timeout = 10
        minutes = 3
        steps = [{ name = "Check", run = "true" }]
        matrix = { runner = ["linux"], target = ["aarch64-apple-darwin"] }
    "#;

    pub(crate) fn pipeline() -> Pipeline {
        Pipeline::parse(PIPELINE).unwrap()
    }

    fn plan(request: &Request) -> Plan {
        let pipeline = pipeline();
        Plan::new(&pipeline, &dependencies(&pipeline), request).unwrap()
    }

    fn decisions(request: &Request) -> String {
        let shown = |job: &PlannedJob| {
            let runs = if job.decision.runs { "+" } else { "-" };
            format!("{runs} {}: {}\n", job.id, job.decision.reason)
        };
        plan(request).jobs.iter().map(shown).collect()
    }

    fn files(files: &[&str]) -> Option<Changes> {
        Some(Changes::Files(files.iter().map(|&file| file.to_owned()).collect()))
    }

    #[test]
    fn events_and_rules_decide() {
        let event = |event| Request { event: Some(event), ..Request::default() };
        insta::assert_snapshot!(decisions(&event(Event::PullRequest)), @"
        + lint/linux: runs on pull requests
        + test/linux/metal: runs on pull requests
        + test/linux/tiny: runs on pull requests
        - test/mac/metal: runs only at night
        - cross/linux/aarch64-apple-darwin: only stands in for others
        ");
        insta::assert_snapshot!(decisions(&event(Event::Nightly)), @"
        - lint/linux: runs only on pull requests, on pushes
        + test/linux/metal: runs at night
        + test/linux/tiny: runs at night
        + test/mac/metal: runs at night
        - cross/linux/aarch64-apple-darwin: only stands in for others
        ");
        let plan = plan(&Request::default());
        let mac = plan.jobs.iter().find(|job| job.id == "test/mac/metal").unwrap();
        assert_eq!(
            (mac.required, mac.timeout, mac.label.as_deref()),
            (false, 90, Some("macos-15"))
        );
        assert!((mac.cost - 200.0).abs() < 1e-9);
        let linux = plan.jobs.iter().find(|job| job.id == "test/linux/tiny").unwrap();
        assert_eq!((linux.required, linux.timeout), (true, 60));
        assert_eq!(
            plan.excluded,
            [("test/mac/tiny".to_owned(), "job.matrix.exclude[0] matches it".to_owned())]
        );
    }

    #[test]
    fn changes_decide() {
        let request = |names: &[&str]| Request {
            event: Some(Event::Push),
            changes: files(names),
            ..Request::default()
        };
        insta::assert_snapshot!(decisions(&request(&["core/src/ops.rs"])), @"
        + lint/linux: core/src/ops.rs changed
        + test/linux/metal: core/src/ops.rs of core changed, which app depends on
        + test/linux/tiny: core/src/ops.rs of core changed, which app depends on
        - test/mac/metal: runs only at night
        - cross/linux/aarch64-apple-darwin: only stands in for others
        ");
        insta::assert_snapshot!(decisions(&request(&["presets/base.toml"])), @"
        + lint/linux: presets/base.toml changed
        + test/linux/metal: preset metal: presets/base.toml changed, which it inherits
        - test/linux/tiny: nothing that it depends on changed
        - test/mac/metal: runs only at night
        - cross/linux/aarch64-apple-darwin: only stands in for others
        ");
        insta::assert_snapshot!(decisions(&request(&["README.md"])), @"
        - lint/linux: nothing that it depends on changed
        - test/linux/metal: nothing that it depends on changed
        - test/linux/tiny: nothing that it depends on changed
        - test/mac/metal: runs only at night
        - cross/linux/aarch64-apple-darwin: only stands in for others
        ");
        assert_eq!(plan(&request(&["Cargo.lock"])).running().count(), 3);
        let all = Request { changes: Some(Changes::All("new".into())), ..request(&[]) };
        assert_eq!(plan(&all).running().count(), 3);
    }

    #[test]
    fn where_no_machine_can_be_had_another_job_stands_in_and_says_so() {
        let without = |labels: &[&str]| Request {
            event: Some(Event::Nightly),
            without: labels.iter().map(|&label| label.to_owned()).collect(),
            ..Request::default()
        };
        let next = plan(&without(&["macos-15"]));
        let mac = next.jobs.iter().find(|job| job.id == "test/mac/metal").unwrap();
        assert_eq!(mac.label.as_deref(), Some("macos-14"), "the next of the pool");
        insta::assert_snapshot!(decisions(&without(&["macos-15", "macos-14"])), @"
        - lint/linux: runs only on pull requests, on pushes
        + test/linux/metal: runs at night
        + test/linux/tiny: runs at night
        - test/mac/metal: no `mac` machine can be had: cross stands in
        + cross/linux/aarch64-apple-darwin: stands in for test/mac/metal
        ");
        assert_eq!(decisions(&without(&["mac"])), decisions(&without(&["macos-15", "macos-14"])));
        let gitlab = Request { forge: Forge::Gitlab, ..without(&[]) };
        let plan = plan(&gitlab);
        let cross = plan.jobs.iter().find(|job| job.job == "cross").unwrap();
        assert_eq!(cross.stands_in_for, ["test/mac/metal"]);
        assert_eq!(cross.label.as_deref(), Some("small"));
        let pull_request = Request { event: Some(Event::PullRequest), ..without(&["mac"]) };
        assert!(decisions(&pull_request).contains("- cross/"), "nothing to stand in for");
    }

    #[test]
    fn too_many_jobs_name_the_axis_to_cut() {
        let many: Vec<String> = (0..130).map(|n| format!("\"3.{n}\"")).collect();
        let python = format!("runner = [\"linux\", \"mac\"]\npython = [{}]", many.join(", "));
        let text = PIPELINE.replace("runner = [\"linux\", \"mac\"]", &python);
        let pipeline = Pipeline::parse(&text).unwrap();
        let plan = |event| {
            let request = Request { event: Some(event), ..Request::default() };
            Plan::new(&pipeline, &dependencies(&pipeline), &request).map_err(|e| e.to_string())
        };
        insta::assert_snapshot!(plan(Event::Nightly).unwrap_err(), @"390 jobs would run at night, and 256 is the most: `test` has 390 of them; cut its axis `python`, which has 130 values");
        assert!(plan(Event::Tag).is_ok());
    }

    #[test]
    fn an_unknown_preset_is_an_error() {
        let pipeline = Pipeline::parse(&PIPELINE.replace("\"tiny\"", "\"huge\"")).unwrap();
        let error = Plan::new(&pipeline, &dependencies(&pipeline), &Request::default());
        insta::assert_snapshot!(error.unwrap_err(), @"`test/linux/huge`: there is no preset `huge`");
    }

    #[test]
    fn what_is_wrong_with_the_file_is_told() {
        let fault = |from: &str, to: &str| {
            assert!(PIPELINE.contains(from), "{from}");
            format!("{:#}", Pipeline::parse(&PIPELINE.replacen(from, to, 1)).unwrap_err())
        };
        let faults = [
            fault("timeout = 10", "timeuot = 10"),
            fault("needs = [\"lint\"]", "needs = [\"tests\"]"),
            fault("preset = [\"metal\", \"tiny\"]", "presets = [\"metal\"]"),
            fault("matrix.runner = [\"linux\"]", "matrix.runner = [\"windows\"]"),
            fault("stand-in = \"cross\"", "stand-in = \"lint\""),
            fault("preset = \"tiny\" }", "shape = \"tiny\" }"),
            fault("name = \"lint\"", "name = \"plan\""),
            fault("name = \"test\"", "name = \"lint\""),
            fault(
                "[action]",
                "[action.checkout]\nuses = \"actions/checkout\"\ncommit = \"v7\"\nversion = \"v7\"",
            ),
        ];
        insta::assert_snapshot!(faults.join("\n----\n"), @"
        ci/pipeline.toml: TOML parse error at line 17, column 9
           |
        17 |         timeuot = 10
           |         ^^^^^^^
        unknown field `timeuot`, expected one of `name`, `about`, `events`, `needs`, `required`, `timeout`, `minutes`, `paths`, `matrix`, `rule`, `steps`, `artifacts`, `gitlab`

        ----
        ci/pipeline.toml: job `test`: it needs `tests`, which is not a job before it in the file
        ----
        ci/pipeline.toml: job `test`: `presets` is no axis; those are: runner, target, preset, python, torch, executorch, sanitizer, shard
        ----
        ci/pipeline.toml: job `lint`: `runner=windows`: there is no [runner.windows]
        ----
        ci/pipeline.toml: [runner.mac]: there is no job `lint` without events that could stand in
        ----
        ci/pipeline.toml: job `test`: exclude[0]: `shape` is no axis of this matrix; its axes are: runner, preset
        ----
        ci/pipeline.toml: job `plan`: the workflows have a job of that name themselves
        ----
        ci/pipeline.toml: job `lint`: there are two of that name
        ----
        ci/pipeline.toml: [action.checkout]: `v7` is no hash of a commit: a tag can be moved, write 40 hexadecimal digits
        ");
    }
}
