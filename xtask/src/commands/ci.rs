//! `cargo xtask ci`: what is checked where, and what failed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::ci::changes::{Changes, Dependencies};
use crate::ci::event::Event;
use crate::ci::pipeline::{self, Pipeline};
use crate::ci::plan::{Forge, Plan, Request};
use crate::ci::triage::{self, Class, Input, Inputs};
use crate::ci::{render, run, shards, table};
use crate::workspace::Workspace;

/// `cargo xtask ci`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Ci {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    matrix: Matrix,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the jobs, and why each runs or not (the default)
    Matrix(Matrix),
    /// Write the workflows of GitHub and GitLab from ci/pipeline.toml
    Render(Render),
    /// Do the steps of a job on this machine
    Run(Run),
    /// Tell new failures from known ones, from logs and test results
    Triage(Triage),
    /// Record how long the tests took, from logs of `cargo xtask test`
    Record(Record),
}

#[derive(Debug, clap::Args)]
struct Matrix {
    /// What happened: the jobs that it starts [default: of every event]
    #[arg(long, value_enum)]
    event: Option<Event>,
    /// The files that changed: only the jobs that depend on them
    #[arg(long, value_name = "FILES", num_args = 0.., conflicts_with = "since")]
    changed: Option<Vec<String>>,
    /// The same, for what changed since a revision
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// Whose machines
    #[arg(long, value_enum, default_value = "github")]
    forge: Forge,
    /// Machines that cannot be had: a pool of ci/pipeline.toml, or a label
    #[arg(long, value_name = "RUNNER")]
    without: Vec<String>,
    /// Show also what does not run, and why
    #[arg(long)]
    explain: bool,
    /// How to write it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// Everything, for programs
    Json,
    /// `matrix={…}`, for $GITHUB_OUTPUT
    Github,
}

#[derive(Debug, clap::Args)]
struct Render {
    /// Change nothing; fail if a file is not what would be written
    #[arg(long)]
    check: bool,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// The job, as `cargo xtask ci` calls it
    job: String,
    /// Show the commands as shell and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct Triage {
    /// Logs of jobs, as `gh run view --log-failed` or GitLab give them
    #[arg(value_name = "LOG", required_unless_present = "junit")]
    logs: Vec<PathBuf>,
    /// Test results in JUnit's format
    #[arg(long, value_name = "FILES", num_args = 1..)]
    junit: Vec<PathBuf>,
    /// Logs or test results of the base revision
    #[arg(long, value_name = "FILES", num_args = 1..)]
    base: Vec<PathBuf>,
    /// How to write it
    #[arg(long, value_enum, default_value = "markdown")]
    format: Summary,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Summary {
    /// For a pull request
    Markdown,
    /// For programs
    Json,
}

#[derive(Debug, clap::Args)]
struct Record {
    /// Logs
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
}

impl Ci {
    /// Does what the command line says.
    ///
    /// # Errors
    /// What is wrong with the pipeline or with a file.
    pub fn run(&self) -> Result<ExitCode> {
        match &self.command {
            None => self.matrix.run(),
            Some(Command::Matrix(matrix)) => matrix.run(),
            Some(Command::Render(render)) => render.run(),
            Some(Command::Run(run)) => run.run(),
            Some(Command::Triage(triage)) => triage.run(),
            Some(Command::Record(record)) => record.run(),
        }
    }
}

/// The repository, its pipeline, and what depends on what.
struct Project {
    workspace: Workspace,
    pipeline: Pipeline,
    dependencies: Dependencies,
}

impl Project {
    fn read() -> Result<Self> {
        let workspace = Workspace::find()?;
        let pipeline = Pipeline::read(&workspace.root)?;
        let dependencies = Dependencies::read(&workspace.root, &pipeline)?;
        Ok(Self { workspace, pipeline, dependencies })
    }

    fn plan(&self, request: &Request) -> Result<Plan> {
        Plan::new(&self.pipeline, &self.dependencies, request)
            .with_context(|| pipeline::FILE.to_owned())
    }
}

impl Matrix {
    fn run(&self) -> Result<ExitCode> {
        let project = Project::read()?;
        let changes = match (&self.changed, &self.since) {
            (Some(files), _) => Some(Changes::Files(files.clone())),
            (None, Some(revision)) => Some(Changes::since(&project.workspace.root, revision)?),
            (None, None) => None,
        };
        let request = Request {
            event: self.event,
            changes,
            forge: self.forge,
            without: self.without.clone(),
        };
        for runner in &self.without {
            let known = project.pipeline.runner.iter().any(|(name, pool)| {
                name == runner || pool.github.contains(runner) || pool.gitlab.contains(runner)
            });
            ensure!(known, "--without {runner}: {} has no such runner", pipeline::FILE);
        }
        let plan = project.plan(&request)?;
        match self.format {
            Format::Table => print!("{}", table::table(&plan, self.explain)),
            Format::Json => print!("{}", table::json(&plan, self.event)?),
            Format::Github => print!("{}", table::github(&project.pipeline, &plan)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Render {
    fn run(&self) -> Result<ExitCode> {
        let project = Project::read()?;
        let files = render::files(&project.pipeline, &project.dependencies)?;
        let differing = render::differing(&project.workspace.root, &files);
        for file in &differing {
            if self.check {
                println!("{} is not what {} gives", file.path.display(), pipeline::FILE);
            } else {
                render::write(&project.workspace.root, file)?;
                println!("written: {}", file.path.display());
            }
        }
        if self.check && !differing.is_empty() {
            println!("run `cargo xtask ci render` and commit what it writes");
            return Ok(ExitCode::FAILURE);
        }
        println!("{} files are what {} gives", files.len(), pipeline::FILE);
        Ok(ExitCode::SUCCESS)
    }
}

impl Run {
    fn run(&self) -> Result<ExitCode> {
        let project = Project::read()?;
        let plan = project.plan(&Request::default())?;
        let planned = run::find(&plan, &self.job)?;
        let commands = run::commands(&project.workspace.root, &project.pipeline, planned)?;
        if self.dry_run {
            for (name, command) in &commands {
                println!("# {name}\n{command}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}: {}", planned.id, planned.combination);
        run::run(&commands)
    }
}

impl Triage {
    /// Fails if there is a new failure.
    fn run(&self) -> Result<ExitCode> {
        let read = |paths: &[PathBuf]| -> Result<Vec<Input>> {
            paths.iter().map(|path| Input::read(path)).collect()
        };
        let inputs =
            Inputs { logs: read(&self.logs)?, junit: read(&self.junit)?, base: read(&self.base)? };
        let today = time::OffsetDateTime::now_utc().date();
        let flaky = triage::flaky::Flaky::read(&Workspace::find()?.root, today)?;
        let failures = triage::triage(&inputs, &flaky)?;
        match self.format {
            Summary::Markdown => {
                print!("{}", triage::report::markdown(&failures, &flaky.expired));
            }
            Summary::Json => print!("{}", triage::report::json(&failures, &flaky.expired)?),
        }
        let new = failures.iter().any(|failure| failure.class == Class::New);
        Ok(if new { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

impl Record {
    fn run(&self) -> Result<ExitCode> {
        let root = Workspace::find()?.root;
        let mut record = shards::Durations::default();
        for path in &self.logs {
            let log = std::fs::read(path).with_context(|| path.display().to_string())?;
            record.0.extend(shards::Durations::of_log(&String::from_utf8_lossy(&log)).0);
        }
        ensure!(!record.0.is_empty(), "no log tells how long tests took: `finished in …`");
        let file = render::Rendered { path: shards::FILE.into(), text: record.to_file() };
        render::write(&root, &file)?;
        print!("{}", file.text);
        Ok(ExitCode::SUCCESS)
    }
}
