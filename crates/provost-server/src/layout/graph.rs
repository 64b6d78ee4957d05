//! Lays out the steps of a plan as a layered graph: a step is drawn below the steps it needs.
//!
//! The number of steps per layer is limited, so that a large plan grows downwards and stays readable.
//! Indirect dependencies are not drawn again. Lines that pass a layer have a position in it, and all lines of
//! one step share it. Barycentres reduce crossings; the final positions are the nearest to the neighbours'
//! that do not overlap.
//!
//! **Invariant:** every step is placed once and no two overlap, for any plan, including one with cycles.

mod order;

use std::collections::{BTreeMap, BTreeSet};

/// Size of a step and the space around it.
pub(crate) const WIDTH: f64 = 168.0;
pub(crate) const HEIGHT: f64 = 44.0;
const BESIDE: f64 = 20.0;
const BELOW: f64 = 28.0;
/// Space for a passing line.
const LINE: f64 = 14.0;
const MARGIN: f64 = 4.0;
/// Maximum number of steps in a layer.
const SIDE_BY_SIDE: usize = 5;

/// A step and the steps it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub id: u32,
    pub needs: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedNode {
    pub id: u32,
    /// Upper left corner.
    pub x: f64,
    pub y: f64,
    /// Direct dependencies that are drawn.
    pub after: Vec<u32>,
}

/// A line from a step down to one that needs it: its start, the upper and lower end of each layer it passes,
/// and its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edge {
    pub from: u32,
    pub to: u32,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GraphLayout {
    pub width: f64,
    pub height: f64,
    pub nodes: Vec<PlacedNode>,
    pub edges: Vec<Edge>,
}

/// An element of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Step(usize),
    /// The lines of this step that pass this layer.
    Pass(usize, usize),
}

pub(crate) fn drawn(nodes: &[Node]) -> GraphLayout {
    let needs = reduced(&acyclic(nodes));
    let layer_of = layered(&needs);
    let mut layers = vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)];
    for (index, layer) in layer_of.iter().enumerate() {
        layers[*layer].push(Item::Step(index));
    }
    let mut links: BTreeSet<(Item, Item)> = BTreeSet::new();
    let mut paths = Vec::new();
    for (to, from) in needs.iter().enumerate().flat_map(|(to, all)| all.iter().map(move |from| (to, *from))) {
        let passes = (layer_of[from] + 1..layer_of[to]).map(|layer| Item::Pass(from, layer));
        let path: Vec<Item> = [Item::Step(from)].into_iter().chain(passes).chain([Item::Step(to)]).collect();
        links.extend(path.windows(2).map(|pair| (pair[0], pair[1])));
        paths.push((from, to, path));
    }
    let passing: BTreeSet<Item> = paths.iter().flat_map(|(.., path)| path.iter().copied()).collect();
    for item in passing {
        if let Item::Pass(_, layer) = item {
            layers[layer].push(item);
        }
    }
    let centre =
        order::places(&mut layers, &links, apart, (WIDTH + BESIDE) * (SIDE_BY_SIDE - 1) as f64 / 2.0);
    let left = centre.iter().map(|(item, x)| x - half(*item)).fold(f64::INFINITY, f64::min);
    let right = centre.iter().map(|(item, x)| x + half(*item)).fold(f64::NEG_INFINITY, f64::max);
    let x = |item: &Item| centre.get(item).map_or(0.0, |x| (x - left + MARGIN).round());
    let y = |layer: usize| MARGIN + layer as f64 * (HEIGHT + BELOW);
    let placed = |(index, node): (usize, &Node)| PlacedNode {
        id: node.id,
        x: x(&Item::Step(index)) - WIDTH / 2.0,
        y: y(layer_of[index]),
        after: needs[index].iter().map(|need| nodes[*need].id).collect(),
    };
    let edges = paths.iter().map(|(from, to, path)| {
        let mut points = Vec::new();
        for item in path {
            let layer = match item {
                Item::Step(index) => layer_of[*index],
                Item::Pass(_, layer) => *layer,
            };
            if *item != Item::Step(*from) {
                points.push((x(item), y(layer)));
            }
            if *item != Item::Step(*to) {
                points.push((x(item), y(layer) + HEIGHT));
            }
        }
        Edge { from: nodes[*from].id, to: nodes[*to].id, points }
    });
    GraphLayout {
        width: if nodes.is_empty() { 0.0 } else { (right - left).round() + 2.0 * MARGIN },
        height: if layers.is_empty() { 0.0 } else { y(layers.len()) - BELOW + MARGIN },
        nodes: nodes.iter().enumerate().map(placed).collect(),
        edges: edges.collect(),
    }
}

impl GraphLayout {
    /// Returns the chain of steps that takes longest, first step first, if it is not all of them.
    pub(crate) fn critical_path(&self, takes: impl Fn(u32) -> f64) -> Vec<u32> {
        let mut nodes: Vec<&PlacedNode> = self.nodes.iter().collect();
        // A step is below the steps that it needs.
        nodes.sort_by(|one, other| one.y.total_cmp(&other.y));
        // The time up to the end of each step, and the step before it on the longest way.
        let mut ends: BTreeMap<u32, (f64, Option<u32>)> = BTreeMap::new();
        for node in nodes {
            let end = |id: &u32| ends.get(id).map_or(0.0, |(end, _)| *end);
            let before = node.after.iter().copied().max_by(|one, other| end(one).total_cmp(&end(other)));
            let start = before.map_or(0.0, |before| end(&before));
            ends.insert(node.id, (start + takes(node.id), before));
        }
        let last = ends.iter().max_by(|one, other| one.1.0.total_cmp(&other.1.0)).map(|(id, _)| *id);
        let before = |id: &u32| ends.get(id).and_then(|(_, before)| *before);
        let mut path: Vec<u32> = std::iter::successors(last, before).collect();
        path.reverse();
        if path.len() == self.nodes.len() { Vec::new() } else { path }
    }
}

fn half(item: Item) -> f64 {
    match item {
        Item::Step(_) => WIDTH / 2.0,
        Item::Pass(..) => 0.0,
    }
}

/// Returns the distance between the centres of two neighbours.
fn apart(left: Item, right: Item) -> f64 {
    let room = match (left, right) {
        (Item::Step(_), Item::Step(_)) => BESIDE,
        _ => LINE,
    };
    half(left) + half(right) + room
}

/// Returns the dependencies as indices, without unknown steps and without those that would close a cycle.
fn acyclic(nodes: &[Node]) -> Vec<BTreeSet<usize>> {
    let at: BTreeMap<u32, usize> = nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let mut needs: Vec<BTreeSet<usize>> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            node.needs.iter().filter_map(|id| at.get(id).copied()).filter(|need| *need != index).collect()
        })
        .collect();
    let mut done = BTreeSet::new();
    while done.len() < nodes.len() {
        let open = || (0..nodes.len()).filter(|index| !done.contains(index));
        let ready: Vec<usize> = open().filter(|index| needs[*index].is_subset(&done)).collect();
        match (ready.is_empty(), open().next()) {
            // The first step of a cycle starts it.
            (true, Some(first)) => {
                needs[first].retain(|need| done.contains(need));
                done.insert(first);
            }
            _ => done.extend(ready),
        }
    }
    needs
}

/// Removes indirect dependencies.
fn reduced(needs: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let mut above: Vec<Option<BTreeSet<usize>>> = vec![None; needs.len()];
    for index in topological(needs) {
        let mut all = needs[index].clone();
        for need in &needs[index] {
            all.extend(above[*need].iter().flatten().copied());
        }
        above[index] = Some(all);
    }
    let by_way = |need: usize, others: &BTreeSet<usize>| {
        others.iter().any(|other| above[*other].as_ref().is_some_and(|above| above.contains(&need)))
    };
    needs.iter().map(|own| own.iter().copied().filter(|need| !by_way(*need, own)).collect()).collect()
}

fn topological(needs: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut below = vec![Vec::new(); needs.len()];
    for (index, own) in needs.iter().enumerate() {
        own.iter().for_each(|need| below[*need].push(index));
    }
    let mut left: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    let mut ready: BTreeSet<usize> = (0..needs.len()).filter(|index| left[*index] == 0).collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for next in &below[index] {
            left[*next] -= 1;
            if left[*next] == 0 {
                ready.insert(*next);
            }
        }
    }
    order
}

/// Assigns each step to the highest layer that its dependencies and the layer's capacity allow.
fn layered(needs: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut layer = vec![0; needs.len()];
    let mut filled: Vec<usize> = Vec::new();
    for index in topological(needs) {
        let mut at = needs[index].iter().map(|need| layer[*need] + 1).max().unwrap_or(0);
        while filled.get(at).is_some_and(|filled| *filled >= SIDE_BY_SIDE) {
            at += 1;
        }
        filled.resize(filled.len().max(at + 1), 0);
        filled[at] += 1;
        layer[index] = at;
    }
    layer
}

#[cfg(test)]
mod tests;
