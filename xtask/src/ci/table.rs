//! A plan as people and as programs read it.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::event::Event;
use super::pipeline::Pipeline;
use super::plan::{Plan, PlannedJob};
use super::run;

/// The jobs as a table: those that run, or with `explain` all, with the reasons.
pub fn table(plan: &Plan, explain: bool) -> String {
    let head = ["job", "machine", "events", "required", "minutes", "cost"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let shown: Vec<_> = plan.jobs.iter().filter(|job| explain || job.decision.runs).collect();
    for job in &shown {
        let mark = if !explain {
            ""
        } else if job.decision.runs {
            "+ "
        } else {
            "- "
        };
        let events: Vec<_> = job.events.iter().map(|event| event.name()).collect();
        rows.push(vec![
            format!("{mark}{}", job.id),
            job.label.clone().unwrap_or_else(|| "none".to_owned()),
            events.join(" "),
            if job.required { "yes" } else { "no" }.to_owned(),
            format!("<= {}", job.timeout),
            format!("{:.0}", job.cost),
        ]);
    }
    let reason = |job: &PlannedJob| format!("    {}\n", job.decision.reason);
    let mut text = String::new();
    for (index, line) in aligned(&rows).into_iter().enumerate() {
        text.push_str(&line);
        text.push('\n');
        if let Some(job) = index.checked_sub(1).map(|index| shown[index])
            && (explain || !job.stands_in_for.is_empty())
        {
            text.push_str(&reason(job));
        }
    }
    if explain {
        for (id, reason) in &plan.excluded {
            let _ = writeln!(text, "- {id}\n    {reason}");
        }
    }
    text.push_str(&sum(plan));
    text
}

/// Lines with columns of one width.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn sum(plan: &Plan) -> String {
    let running = plan.running().count();
    let required = plan.running().filter(|job| job.required).count();
    let cost = plan.running().fold(0.0, |sum, job| sum + job.cost);
    let jobs = if running == 1 { "job runs" } else { "jobs run" };
    format!(
        "{running} of {} {jobs}, {required} required; cost {cost:.0} (minutes of the cheapest \
         machine)\n",
        plan.jobs.len() + plan.excluded.len()
    )
}

/// The line for `$GITHUB_OUTPUT`: `matrix={…}`, with a matrix for each job of the file that runs.
pub fn github(pipeline: &Pipeline, plan: &Plan) -> String {
    let entry = |job: &&PlannedJob| {
        let mut entry: Map<String, Value> = job.combination.0.iter().cloned().collect();
        for (key, value) in run::variables(pipeline, job) {
            entry.entry(key).or_insert(Value::from(value));
        }
        let own = [
            ("id", json!(job.id)),
            ("runs-on", json!(job.label)),
            ("required", json!(job.required)),
            ("timeout", json!(job.timeout)),
            ("artifact", json!(job.id.replace('/', "-"))),
        ];
        entry.extend(own.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(entry)
    };
    let matrix = |(name, jobs): (&str, Vec<&PlannedJob>)| {
        let include: Vec<Value> = jobs.iter().map(entry).collect();
        (name.to_owned(), json!({ "include": include }))
    };
    let matrices: Map<String, Value> = plan.by_job().into_iter().map(matrix).collect();
    format!("matrix={}\n", Value::Object(matrices))
}

/// Everything, for programs.
///
/// # Errors
/// None that is known.
pub fn json(plan: &Plan, event: Option<Event>) -> Result<String> {
    let job = |job: &PlannedJob| {
        let combination: Map<String, Value> = job.combination.0.iter().cloned().collect();
        json!({
            "id": job.id,
            "job": job.job,
            "combination": combination,
            "machine": job.label,
            "events": job.events.iter().map(|event| event.name()).collect::<Vec<_>>(),
            "required": job.required,
            "timeout_minutes": job.timeout,
            "cost": job.cost,
            "stands_in_for": job.stands_in_for,
            "runs": job.decision.runs,
            "reason": job.decision.reason,
        })
    };
    let excluded = |(id, reason): &(String, String)| json!({ "id": id, "reason": reason });
    let whole = json!({
        "event": event.map(Event::name),
        "jobs": plan.jobs.iter().map(job).collect::<Vec<_>>(),
        "excluded": plan.excluded.iter().map(excluded).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::changes::tests::dependencies;
    use crate::ci::plan::Request;
    use crate::ci::plan::tests::{PIPELINE, pipeline};

    fn plan(event: Event, without: &[&str]) -> Plan {
        let request = Request {
            event: Some(event),
            without: without.iter().map(|&label| label.to_owned()).collect(),
            ..Request::default()
        };
        let pipeline = pipeline();
        Plan::new(&pipeline, &dependencies(&pipeline), &request).unwrap()
    }

    #[test]
    fn the_table_has_what_runs() {
        insta::assert_snapshot!(table(&plan(Event::Push, &[]), false), @"
        job               machine       events                     required  minutes  cost
        lint/linux        ubuntu-24.04  pull-request push          yes       <= 10    2
        test/linux/metal  ubuntu-24.04  pull-request push nightly  yes       <= 60    20
        test/linux/tiny   ubuntu-24.04  pull-request push nightly  yes       <= 60    20
        3 of 6 jobs run, 3 required; cost 42 (minutes of the cheapest machine)
        ");
        insta::assert_snapshot!(table(&plan(Event::Nightly, &["mac"]), false), @"
        job                               machine       events                     required  minutes  cost
        test/linux/metal                  ubuntu-24.04  pull-request push nightly  yes       <= 60    20
        test/linux/tiny                   ubuntu-24.04  pull-request push nightly  yes       <= 60    20
        cross/linux/aarch64-apple-darwin  ubuntu-24.04  nightly                    yes       <= 10    3
            stands in for test/mac/metal
        3 of 6 jobs run, 3 required; cost 43 (minutes of the cheapest machine)
        ");
        insta::assert_snapshot!(table(&plan(Event::Tag, &[]), false), @"
        job  machine  events  required  minutes  cost
        0 of 6 jobs run, 0 required; cost 0 (minutes of the cheapest machine)
        ");
    }

    #[test]
    fn explained_it_has_everything_with_reasons() {
        insta::assert_snapshot!(table(&plan(Event::Nightly, &["mac"]), true), @"
        job                                 machine       events                     required  minutes  cost
        - lint/linux                        ubuntu-24.04  pull-request push          yes       <= 10    2
            runs only on pull requests, on pushes
        + test/linux/metal                  ubuntu-24.04  pull-request push nightly  yes       <= 60    20
            runs at night
        + test/linux/tiny                   ubuntu-24.04  pull-request push nightly  yes       <= 60    20
            runs at night
        - test/mac/metal                    none          nightly                    no        <= 90    200
            no `mac` machine can be had: cross stands in
        + cross/linux/aarch64-apple-darwin  ubuntu-24.04  nightly                    yes       <= 10    3
            stands in for test/mac/metal
        - test/mac/tiny
            job.matrix.exclude[0] matches it
        3 of 6 jobs run, 3 required; cost 43 (minutes of the cheapest machine)
        ");
    }

    #[test]
    fn for_github_it_is_one_line_that_makes_the_same_jobs() {
        let pipeline = pipeline();
        let line = github(&pipeline, &plan(Event::Nightly, &[]));
        assert_eq!(line.lines().count(), 1);
        let matrix: Value =
            serde_json::from_str(line.trim_end().strip_prefix("matrix=").unwrap()).unwrap();
        assert_eq!(matrix.as_object().unwrap().keys().collect::<Vec<_>>(), ["test"]);
        let include = matrix["test"]["include"].as_array().unwrap();
        assert_eq!(include.len(), 3);
        let mac = include.iter().find(|entry| entry["id"] == "test/mac/metal").unwrap();
        let right = json!({
            "id": "test/mac/metal", "runner": "mac", "preset": "metal", "runs-on": "macos-15",
            "required": false, "timeout": 90, "artifact": "test-mac-metal",
        });
        assert_eq!(*mac, right);
        // What GitHub makes of it.
        let entries = include.iter().map(|entry| entry.as_object().unwrap().clone()).collect();
        let again = super::super::matrix::Matrix { include: entries, ..Default::default() };
        assert_eq!(again.expand().unwrap().combinations.len(), 3);
        assert_eq!(github(&pipeline, &plan(Event::Tag, &[])), "matrix={}\n");
    }

    #[test]
    fn a_shard_comes_with_the_count_of_shards() {
        let text = PIPELINE
            .replace("runner = [\"linux\", \"mac\"]", "shard = [1, 2]\nrunner = [\"linux\"]");
        let text = text.replace("exclude = [{ runner = \"mac\", preset = \"tiny\" }]", "");
        let pipeline = Pipeline::parse(&text).unwrap();
        let request = Request { event: Some(Event::Push), ..Request::default() };
        let plan = Plan::new(&pipeline, &dependencies(&pipeline), &request).unwrap();
        let line = github(&pipeline, &plan);
        assert!(
            line.contains(r#""shard":2,"shards":"2""#) || line.contains(r#""shards":"2""#),
            "{line}"
        );
    }

    #[test]
    fn for_programs_it_is_json() {
        let text = json(&plan(Event::Push, &[]), Some(Event::Push)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["event"], "push");
        assert_eq!(value["jobs"].as_array().unwrap().len(), 5);
        assert_eq!(value["jobs"][1]["reason"], "runs on pushes");
        assert_eq!(value["excluded"][0]["id"], "test/mac/tiny");
    }
}
