use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Combination, Matrix};

/// The table of cases is written as a workflow is.
const CASES: &str = include_str!("cases.yaml");

fn matrix(table: &yaml_serde::Mapping) -> Matrix {
    let json = |value: &yaml_serde::Value| serde_json::to_value(value).unwrap();
    let entries = |name: &str| -> Vec<Map<String, Value>> {
        let entries = table.get(name).map(|entries| serde_json::from_value(json(entries)));
        entries.transpose().unwrap().unwrap_or_default()
    };
    let axis = |(name, values): (&yaml_serde::Value, &yaml_serde::Value)| {
        let values = json(values).as_array().unwrap().clone();
        (name.as_str().unwrap().to_owned(), values)
    };
    let axes =
        table.iter().filter(|(name, _)| !matches!(name.as_str(), Some("include" | "exclude")));
    Matrix {
        axes: axes.map(axis).collect(),
        include: entries("include"),
        exclude: entries("exclude"),
    }
}

fn object(combination: &Combination) -> Value {
    Value::Object(combination.0.iter().cloned().collect())
}

#[test]
fn matrices_become_the_jobs_that_github_makes_of_them() {
    let cases: Vec<yaml_serde::Mapping> = yaml_serde::from_str(CASES).unwrap();
    assert!(cases.len() >= 40, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let expansion = matrix(case["matrix"].as_mapping().unwrap()).expand();
        let jobs = expansion.as_ref().map(|e| e.combinations.iter().map(object).collect());
        match (case.get("jobs"), case.get("error").and_then(|error| error.as_str()), jobs) {
            (Some(right), None, Ok(jobs)) => {
                let right = serde_json::to_value(right).unwrap();
                let jobs = Value::Array(jobs);
                if jobs != right {
                    wrong.push(format!("{name}: {jobs} is not {right}"));
                }
            }
            (None, Some(error), Err(fault)) if fault.to_string().contains(error) => {}
            (_, _, other) => wrong.push(format!("{name}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_was_excluded_is_told_with_the_entry_that_did_it() {
    let entry = |value: Value| value.as_object().unwrap().clone();
    let matrix = Matrix {
        axes: vec![("a".into(), vec![json!(1), json!(2)]), ("b".into(), vec![json!(3)])],
        exclude: vec![entry(json!({"a": 9})), entry(json!({"a": 2}))],
        include: Vec::new(),
    };
    let excluded = matrix.expand().unwrap().excluded;
    assert_eq!(excluded.len(), 1);
    assert_eq!((excluded[0].0.to_string().as_str(), excluded[0].1), ("a=2 b=3", 1));
}

/// Few names and values, so that entries often match.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec!["0", "1", "x", "X", ""]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        (0..2i64, 0..2i64).prop_map(|(p, q)| json!({"p": p, "q": q})),
        (0..2i64).prop_map(|p| json!({ "p": p })),
        prop::collection::vec(0..2i64, 0..3).prop_map(Value::from),
    ]
}

fn entry(names: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::hash_map(prop::sample::select(names), value(), 1..=names.len())
        .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn any_matrix() -> impl Strategy<Value = Matrix> {
    let axis = || prop::collection::vec(value(), 1..4);
    let axes = (axis(), axis(), axis()).prop_map(|(a, b, c)| {
        [("a", a), ("b", b), ("c", c)].map(|(name, values)| (name.to_owned(), values)).to_vec()
    });
    let include = prop::collection::vec(entry(&["a", "b", "c", "x", "y"]), 0..4);
    let exclude = prop::collection::vec(entry(&["a", "b", "c"]), 0..3);
    (axes, include, exclude).prop_map(|(axes, include, exclude)| Matrix { axes, include, exclude })
}

/// Jobs without their order, and without that of their keys; equal jobs are counted.
fn set(matrix: &Matrix) -> Vec<String> {
    let mut jobs: Vec<String> = matrix
        .expand()
        .unwrap()
        .combinations
        .iter()
        .map(|combination| {
            let pairs: BTreeSet<_> =
                combination.0.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("{pairs:?}")
        })
        .collect();
    jobs.sort();
    jobs
}

proptest! {
    #[test]
    fn the_order_of_axes_does_not_change_the_set(
        (matrix, order) in any_matrix()
            .prop_flat_map(|m| { let axes = m.axes.clone(); (Just(m), Just(axes).prop_shuffle()) })
    ) {
        let shuffled = Matrix { axes: order, ..matrix.clone() };
        prop_assert_eq!(set(&matrix), set(&shuffled));
    }

    #[test]
    fn axes_keep_their_values_and_nothing_is_lost(matrix in any_matrix()) {
        let expansion = matrix.expand().unwrap();
        let size: usize = matrix.axes.iter().map(|(_, values)| values.len()).product();
        let kept = size - expansion.excluded.len();
        prop_assert!(expansion.combinations.len() >= kept);
        prop_assert!(expansion.combinations.len() <= kept + matrix.include.len());
        for combination in &expansion.combinations[..kept] {
            for (name, values) in &matrix.axes {
                prop_assert!(values.contains(combination.get(name).unwrap()));
            }
        }
    }
}
