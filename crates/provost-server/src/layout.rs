//! Computes positions and lines of what the pages draw: graph, timeline and text differences.

pub(crate) mod diff;
pub(crate) mod graph;
pub(crate) mod graph_cache;
pub(crate) mod timeline;
