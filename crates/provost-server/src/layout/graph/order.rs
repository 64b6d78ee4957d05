//! Orders the elements of each layer and computes their positions.

use std::collections::{BTreeMap, BTreeSet};

use super::Item;

/// Number of ordering passes, alternately downwards and upwards.
const SWEEPS: usize = 12;
/// Weight of passing lines, which are kept straight with priority over steps.
const STRAIGHT: f64 = 4.0;

type Near = BTreeMap<Item, Vec<Item>>;

/// Orders each layer and returns the centre of every element. The wanted positions are at most `aside` from
/// the middle.
pub(super) fn places(
    layers: &mut [Vec<Item>],
    links: &BTreeSet<(Item, Item)>,
    apart: impl Fn(Item, Item) -> f64,
    aside: f64,
) -> BTreeMap<Item, f64> {
    let (mut above, mut below) = (Near::new(), Near::new());
    for (upper, lower) in links {
        above.entry(*lower).or_default().push(*upper);
        below.entry(*upper).or_default().push(*lower);
    }
    let mut best = (crossings(layers, &below), layers.to_vec());
    for sweep in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let near = if sweep.is_multiple_of(2) { &above } else { &below };
        for at in in_turn(layers.len(), sweep) {
            let neighbour = if sweep.is_multiple_of(2) { at.checked_sub(1) } else { Some(at + 1) };
            let ranks = neighbour.and_then(|neighbour| layers.get(neighbour)).map(|layer| ranked(layer));
            if let Some(ranks) = ranks {
                by_barycentre(&mut layers[at], &ranks, near);
            }
        }
        let now = crossings(layers, &below);
        if now < best.0 {
            best = (now, layers.to_vec());
        }
    }
    layers.clone_from_slice(&best.1);
    let mut centre = BTreeMap::new();
    for layer in layers.iter() {
        let wanted: Vec<(f64, f64)> = layer.iter().map(|_| (0.0, 1.0)).collect();
        centre.extend(layer.iter().copied().zip(nearest(layer, &wanted, &apart)));
    }
    for sweep in 0..SWEEPS {
        for at in in_turn(layers.len(), sweep) {
            let layer = &layers[at];
            let wanted: Vec<(f64, f64)> =
                layer.iter().map(|item| wish(*item, &above, &below, &centre, aside)).collect();
            centre.extend(layer.iter().copied().zip(nearest(layer, &wanted, &apart)));
        }
    }
    centre
}

fn in_turn(length: usize, sweep: usize) -> Vec<usize> {
    if sweep.is_multiple_of(2) { (0..length).collect() } else { (0..length).rev().collect() }
}

fn ranked(layer: &[Item]) -> BTreeMap<Item, usize> {
    layer.iter().enumerate().map(|(rank, item)| (*item, rank)).collect()
}

fn by_barycentre(layer: &mut [Item], ranks: &BTreeMap<Item, usize>, near: &Near) {
    let mut keyed: Vec<(f64, Item)> = layer
        .iter()
        .enumerate()
        .map(|(own, item)| {
            let places: Vec<f64> = near
                .get(item)
                .into_iter()
                .flatten()
                .filter_map(|other| ranks.get(other))
                .map(|rank| *rank as f64)
                .collect();
            // An element without neighbours there stays.
            let mean = if places.is_empty() { own as f64 } else { mean(&places) };
            (mean, *item)
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    layer.iter_mut().zip(keyed).for_each(|(slot, (_, item))| *slot = item);
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the number of crossing pairs of lines.
fn crossings(layers: &[Vec<Item>], below: &Near) -> usize {
    layers
        .windows(2)
        .map(|pair| {
            let ranks = ranked(&pair[1]);
            let ends = |item: &Item| {
                let mut ends: Vec<usize> = below
                    .get(item)
                    .into_iter()
                    .flatten()
                    .filter_map(|other| ranks.get(other).copied())
                    .collect();
                ends.sort_unstable();
                ends
            };
            let ends: Vec<usize> = pair[0].iter().flat_map(ends).collect();
            inversions(&ends, pair[1].len())
        })
        .sum()
}

/// Counts the pairs in wrong order with a Fenwick tree.
fn inversions(ends: &[usize], size: usize) -> usize {
    let mut tree = vec![0; size + 1];
    let mut count = 0;
    for (seen, end) in ends.iter().enumerate() {
        let (mut at, mut not_after) = (end + 1, 0);
        while at > 0 {
            not_after += tree[at];
            at &= at - 1;
        }
        count += seen - not_after;
        at = end + 1;
        while at <= size {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    count
}

/// Returns the wanted position of an element and its weight.
fn wish(item: Item, above: &Near, below: &Near, centre: &BTreeMap<Item, f64>, aside: f64) -> (f64, f64) {
    let near = above.get(&item).into_iter().chain(below.get(&item)).flatten();
    let places: Vec<f64> = near.filter_map(|other| centre.get(other).copied()).collect();
    let own = centre.get(&item).copied().unwrap_or_default();
    let weight = if matches!(item, Item::Pass(..)) { STRAIGHT } else { 1.0 };
    // Without a limit, a plan that always leads to one side would be as wide as it is long.
    (if places.is_empty() { own } else { mean(&places).clamp(-aside, aside) }, weight)
}

/// Returns the positions nearest to the wanted ones, by least squares, that keep the order and the distances:
/// neighbours with conflicting wishes are pooled.
fn nearest(layer: &[Item], wanted: &[(f64, f64)], apart: &impl Fn(Item, Item) -> f64) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(layer.len());
    let mut offset = 0.0;
    for (index, item) in layer.iter().enumerate() {
        if let Some(before) = index.checked_sub(1).and_then(|before| layer.get(before)) {
            offset += apart(*before, *item);
        }
        offsets.push(offset);
    }
    // Mean, weight and size of each pool.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for ((wish, weight), offset) in wanted.iter().zip(&offsets) {
        let mut pool = (wish - offset, *weight, 1);
        while let Some(last) = pools.last().copied().filter(|last| last.0 > pool.0) {
            let weight = last.1 + pool.1;
            pool = ((last.0 * last.1 + pool.0 * pool.1) / weight, weight, last.2 + pool.2);
            pools.pop();
        }
        pools.push(pool);
    }
    let starts = pools.iter().flat_map(|(start, _, size)| std::iter::repeat_n(*start, *size));
    starts.zip(offsets).map(|(start, offset)| start + offset).collect()
}
