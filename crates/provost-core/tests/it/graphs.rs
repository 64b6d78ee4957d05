//! Schedules real graphs, if they are in a folder next to this project, with the scheduling example.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

#[allow(dead_code, clippy::duplicate_mod)]
#[path = "../../examples/schedule.rs"]
mod example;

const DAGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/dags");

fn graphs() -> Vec<(PathBuf, Value)> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(DAGS).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| !path.ends_with("index.json"));
    paths.sort();
    if paths.is_empty() {
        crate::skip::cases(DAGS);
    }
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).ok()?;
        Some((path, serde_json::from_slice(&text).ok()?))
    };
    paths.into_iter().filter_map(read).collect()
}

fn simulated(graph: &Value, jobs: usize) -> Result<Vec<example::Slot>, Vec<String>> {
    let dag: example::Dag = serde_json::from_value(graph.clone()).unwrap();
    example::simulate(&dag, jobs)
}

#[test]
fn no_graph_takes_longer_than_by_the_longest_path_first() {
    for (path, graph) in graphs().into_iter().filter(|(_, graph)| graph["facts"]["acyclic"] == true) {
        for (jobs, bounds) in graph["facts"]["makespan"].as_object().into_iter().flatten() {
            let slots = simulated(&graph, jobs.parse().unwrap()).unwrap();
            let makespan = slots.iter().map(|slot| slot.end).fold(0.0, f64::max);
            let reference = bounds["list_longest_path_first"].as_f64().unwrap();
            // The reference is rounded.
            assert!(makespan <= reference + 1e-3, "{} at {jobs}: {makespan} > {reference}", path.display());
            assert_eq!(slots.len(), graph["nodes"].as_array().unwrap().len(), "{}", path.display());
        }
    }
}

#[test]
fn a_circle_is_refused_and_named() {
    for (path, graph) in graphs() {
        let is_round = graph["facts"]["acyclic"] == false;
        assert_eq!(simulated(&graph, 4).is_err(), is_round, "{}", path.display());
    }
    let edges = json!([["a", "b"], ["b", "c"], ["c", "b"]]);
    let graph = json!({ "nodes": [{ "id": "a" }, { "id": "b" }, { "id": "c" }], "edges": edges });
    assert_eq!(simulated(&graph, 2).unwrap_err(), ["b", "c", "b"]);
}

/// Ten times the edges take about ten times as long, not a hundred times.
#[test]
fn the_schedule_is_linear_in_the_edges() {
    let graph = |steps: usize, width: usize| {
        let nodes: Vec<Value> =
            (0..steps).map(|at| json!({ "id": at.to_string(), "dur": 1 + at % 7 })).collect();
        let back = |at: usize| (1..=50).filter_map(move |by| at.checked_sub(by * width));
        let edges: Vec<Value> = (0..steps)
            .flat_map(|at| back(at).map(move |before| json!([before.to_string(), at.to_string()])))
            .collect();
        json!({ "nodes": nodes, "edges": edges })
    };
    let time = |steps: usize, width: usize| {
        let graph = graph(steps, width);
        let (order, took) = crate::cpu_time(|| simulated(&graph, 8).unwrap());
        assert_eq!(order.len(), steps);
        (graph["edges"].as_array().unwrap().len(), took)
    };
    let (_, few) = time(300, 2);
    let (edges, many) = time(2_100, 2);
    assert!(edges > 99_000, "{edges}");
    assert!(many < few * 60 + Duration::from_millis(500), "{few:?} for a tenth of what took {many:?}");
    // It must not be slower if nearly all steps are ready from the start.
    let (_, wide) = time(2_100, 1_000);
    assert!(wide < few * 60 + Duration::from_millis(500), "{few:?}, and {wide:?}");
    if !cfg!(debug_assertions) {
        assert!(many < Duration::from_secs(1), "{many:?}");
    }
}
