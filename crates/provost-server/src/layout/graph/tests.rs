//! Tests with the layouts of small and large plans.

use super::{GraphLayout, HEIGHT, Node, WIDTH, drawn};

/// Parses steps with their dependencies: `1; 2<1; 3<1,2`.
fn plan(text: &str) -> Vec<Node> {
    let number = |text: &str| text.trim().parse().expect("a number");
    let node = |part: &str| match part.split_once('<') {
        Some((id, needs)) => Node { id: number(id), needs: needs.split(',').map(number).collect() },
        None => Node { id: number(part), needs: Vec::new() },
    };
    text.split(';').map(node).collect()
}

/// Returns the steps of each layer, from left to right.
fn rows(drawing: &GraphLayout) -> String {
    let mut nodes: Vec<_> =
        drawing.nodes.iter().map(|node| (node.y as i64, node.x as i64, node.id)).collect();
    nodes.sort_unstable();
    let rows = nodes.chunk_by(|a, b| a.0 == b.0);
    let row =
        |row: &[(i64, i64, u32)]| row.iter().map(|node| node.2.to_string()).collect::<Vec<_>>().join(" ");
    rows.map(row).collect::<Vec<_>>().join(" / ")
}

fn is_sound(drawing: &GraphLayout, count: usize) {
    assert_eq!(drawing.nodes.len(), count);
    for (index, node) in drawing.nodes.iter().enumerate() {
        assert!(node.x >= 0.0 && node.x + WIDTH <= drawing.width, "{node:?} of {}", drawing.width);
        assert!(node.y >= 0.0 && node.y + HEIGHT <= drawing.height, "{node:?} of {}", drawing.height);
        for other in &drawing.nodes[index + 1..] {
            let beside = (node.x - other.x).abs() >= WIDTH || (node.y - other.y).abs() >= HEIGHT;
            assert!(beside, "{node:?} stands on {other:?}");
        }
    }
    for edge in &drawing.edges {
        assert!(edge.points.windows(2).all(|pair| pair[0].1 < pair[1].1), "{edge:?} does not go down");
    }
}

#[test]
fn a_chain_is_one_column() {
    let drawing = drawn(&plan("1;2<1;3<2;4<3;5<4;6<5;7<6"));
    is_sound(&drawing, 7);
    assert_eq!(rows(&drawing), "1 / 2 / 3 / 4 / 5 / 6 / 7");
    assert!(drawing.nodes.iter().all(|node| node.x == drawing.nodes[0].x));
}

#[test]
fn what_is_needed_by_way_of_another_is_not_drawn_again() {
    let drawing = drawn(&plan("1;2<1;3<1,2;4<1,2,3"));
    let edges: Vec<(u32, u32)> = drawing.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    assert_eq!(edges, [(1, 2), (2, 3), (3, 4)]);
}

#[test]
fn crossings_that_need_not_be_are_not_there() {
    // In the order of the text the two lines would cross.
    let drawing = drawn(&plan("1;2;3<2;4<1"));
    is_sound(&drawing, 4);
    assert_eq!(rows(&drawing), "1 2 / 4 3");
    let diamond = drawn(&plan("1;2<1;3<1;4<2,3"));
    assert_eq!(rows(&diamond), "1 / 2 3 / 4");
    assert_eq!(diamond.nodes[0].x, diamond.nodes[3].x);
}

#[test]
fn a_line_that_passes_a_layer_passes_beside_its_steps() {
    let drawing = drawn(&plan("1;2;3<1;4<3;5<4,2"));
    is_sound(&drawing, 5);
    let long = drawing.edges.iter().find(|edge| (edge.from, edge.to) == (2, 5)).expect("an edge");
    for (x, y) in &long.points[1..long.points.len() - 1] {
        let hit = drawing
            .nodes
            .iter()
            .find(|node| (node.y..=node.y + HEIGHT).contains(y) && *x > node.x && *x < node.x + WIDTH);
        assert!(hit.is_none(), "{x},{y} runs through {hit:?}");
    }
}

#[test]
fn a_plan_that_makes_no_sense_is_drawn_all_the_same() {
    is_sound(&drawn(&[]), 0);
    let drawing = drawn(&plan("1<3;2<1;3<2,3,9"));
    is_sound(&drawing, 3);
    assert_eq!(rows(&drawing), "1 / 2 / 3");
}

#[test]
fn two_hundred_steps_stay_narrow() {
    let mut seed = 7_u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    for needs in [0, 1, 2, 5] {
        let nodes: Vec<Node> = (1..=200)
            .map(|id| Node {
                id,
                needs: (0..needs).map(|_| 1 + random(id)).filter(|need| *need < id).collect(),
            })
            .collect();
        let drawing = drawn(&nodes);
        is_sound(&drawing, 200);
        assert!(
            drawing
                .nodes
                .iter()
                .all(|node| { drawing.nodes.iter().filter(|other| other.y == node.y).count() <= 5 })
        );
        for node in &drawing.nodes {
            let of = |id: u32| drawing.nodes.iter().find(|other| other.id == id).expect("a step");
            assert!(node.after.iter().all(|need| of(*need).y < node.y), "{node:?}");
        }
    }
    let star: Vec<Node> =
        (1..=200).map(|id| Node { id, needs: if id > 1 { vec![1] } else { vec![] } }).collect();
    is_sound(&drawn(&star), 200);
}

#[test]
fn the_critical_path_is_the_chain_that_takes_longest() {
    let node = |id: u32, needs: &[u32]| Node { id, needs: needs.to_vec() };
    let layout = drawn(&[node(1, &[]), node(2, &[1]), node(3, &[1]), node(4, &[2, 3]), node(5, &[])]);
    assert_eq!(layout.critical_path(|id| if id == 3 { 9.0 } else { 1.0 }), [1, 3, 4]);
    assert_eq!(layout.critical_path(|id| if id == 5 { 99.0 } else { 1.0 }), [5]);
    let chain = drawn(&[node(1, &[]), node(2, &[1])]);
    assert!(chain.critical_path(|_| 1.0).is_empty(), "all of it is no emphasis");
}
