//! Computes positions and lines of what the pages draw: graph, timeline and text differences.

pub mod diff;
pub mod graph;
pub mod graph_cache;
pub mod timeline;
