//! Draws the steps of a plan: one line per step, and one lane for each step that others still wait for.
//!
//! ```text
//! ●    1 ✅ Read the input
//! ├─○  2 ⏳ Write the handler
//! ○ │  3 · Write the docs
//! ○─╯  4 · Release
//! ```

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use crate::model::plan::{Needs, Plan, StepNumber};
use crate::state::run::Run;

/// Minimum width of a terminal.
const WIDTH: usize = 80;
/// Maximum number of lanes; with more, a list of numbers is clearer.
const MOST_LANES: usize = 16;

/// Returns the lanes before each step, all of the same width. `None` if the steps simply follow each other.
pub fn lanes(plan: &Plan, is_over: impl Fn(StepNumber) -> bool) -> Option<Vec<String>> {
    if plan.steps.iter().all(|step| step.needs == Needs::Before) {
        return None;
    }
    let needs = drawn(plan);
    let mut waiting: HashMap<usize, usize> = HashMap::new();
    needs.iter().flatten().for_each(|need| *waiting.entry(*need).or_default() += 1);
    let mut lanes: Vec<Option<usize>> = Vec::new();
    let mut rows = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let mut ending = BTreeSet::new();
        for need in &needs[at] {
            let left = waiting.entry(*need).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                ending.insert(*need);
            }
        }
        let from: Vec<usize> = (0..lanes.len())
            .filter(|lane| lanes[*lane].is_some_and(|held| needs[at].contains(&held)))
            .collect();
        let ends = |lane: &usize| lanes[*lane].is_some_and(|held| ending.contains(&held));
        // Use the column of a lane that ends here, else a free one, else a new one.
        let column = from.iter().copied().find(ends);
        let free = (0..lanes.len()).find(|lane| lanes[*lane].is_none());
        let column = column.or(free).unwrap_or(lanes.len());
        if column == lanes.len() {
            lanes.push(None);
        }
        let ends: Vec<bool> =
            lanes.iter().map(|held| held.is_some_and(|held| ending.contains(&held))).collect();
        rows.push(row(&lanes, &from, &ends, column, is_over(step.number)));
        for (lane, ends) in ends.iter().enumerate() {
            if *ends {
                lanes[lane] = None;
            }
        }
        lanes[column] = waiting.get(&at).is_some_and(|left| *left > 0).then_some(at);
        while lanes.last() == Some(&None) {
            lanes.pop();
        }
    }
    let width = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
    let pad = |row: String| format!("{row}{}", " ".repeat(width - row.chars().count()));
    (width < 2 * MOST_LANES).then(|| rows.into_iter().map(pad).collect())
}

fn row(lanes: &[Option<usize>], from: &[usize], ends: &[bool], column: usize, is_over: bool) -> String {
    let first = from.iter().copied().chain([column]).min().unwrap_or(column);
    let last = from.iter().copied().chain([column]).max().unwrap_or(column);
    let mut row = String::new();
    for lane in 0..lanes.len() {
        let is_crossed = first < lane && lane < last;
        let sign = match lanes[lane] {
            _ if lane == column => {
                if is_over {
                    '●'
                } else {
                    '○'
                }
            }
            Some(_) if from.contains(&lane) => match (ends[lane], lane == first, lane == last) {
                (true, true, _) => '╰',
                (true, _, true) => '╯',
                (true, false, false) => '┴',
                (false, true, _) => '├',
                (false, _, true) => '┤',
                (false, false, false) => '┼',
            },
            Some(_) if is_crossed => '┼',
            Some(_) => '│',
            None if is_crossed => '─',
            None => ' ',
        };
        row.push(sign);
        row.push(if first <= lane && lane < last { '─' } else { ' ' });
    }
    row.trim_end().to_owned()
}

/// Returns the dependencies to draw. A step that waits for all before it is drawn to wait for those that no
/// other step waits for.
fn drawn(plan: &Plan) -> Vec<Vec<usize>> {
    let mut heads: BTreeSet<usize> = BTreeSet::new();
    let mut all = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let needs: BTreeSet<usize> = match &step.needs {
            Needs::Before => heads.clone(),
            Needs::Steps(needs) => needs
                .iter()
                .map(|need| (need.value.0 as usize).wrapping_sub(1))
                .filter(|need| *need < at)
                .collect(),
        };
        heads.retain(|head| !needs.contains(head));
        heads.insert(at);
        all.push(needs.into_iter().collect());
    }
    all
}

/// Draws the graph with numbers, marks and titles; empty if the steps simply follow each other.
pub fn drawing(run: &Run) -> String {
    let is_over = |number| run.step(number).is_some_and(|step| step.state.is_settled());
    let Some(lanes) = lanes(&run.plan, is_over) else { return String::new() };
    let mut out = String::from("\n");
    for (row, step) in lanes.iter().zip(&run.plan.steps) {
        let mark = run.mark(step.number).map_or("·", |mark| mark.symbol());
        let before = format!("{row}  {} {mark} ", step.number);
        let room = WIDTH.saturating_sub(before.chars().count() + 1);
        let _ = writeln!(out, "{before}{}", clipped(&step.title, room));
    }
    out
}

fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::language::parse;

    fn check(needs: &[&str], drawing: &Expect) {
        let mut text = String::from("# Plan\n\n## Steps\n");
        for (at, needs) in needs.iter().enumerate() {
            let needs = if needs.is_empty() { String::new() } else { format!("**needs:** {needs}\n") };
            text.push_str(&format!("\n### {}. Step\n{needs}**task:**\nDo.\n", at + 1));
        }
        let plan = parse::plan(&text).plan;
        let rows = lanes(&plan, |number| number.0 < 3).unwrap_or_default();
        let numbered = rows.iter().enumerate().map(|(at, row)| format!("{row} {}\n", at + 1));
        drawing.assert_eq(&numbered.collect::<String>());
    }

    #[test]
    fn steps_that_follow_each_other_need_no_drawing() {
        check(&["", "", ""], &expect![[""]]);
    }

    #[test]
    fn a_fork_and_a_join() {
        check(
            &["", "1", "1", "2, 3"],
            &expect![[r#"
                ●   1
                ├─● 2
                ○ │ 3
                ○─╯ 4
            "#]],
        );
    }

    #[test]
    fn chains_beside_each_other_and_one_that_waits_for_all() {
        check(
            &["none", "none", "none", "1", "2", ""],
            &expect![[r#"
                ●     1
                │ ●   2
                │ │ ○ 3
                ○ │ │ 4
                │ ○ │ 5
                ○─┴─╯ 6
            "#]],
        );
    }

    #[test]
    fn a_step_that_is_needed_again_later_keeps_its_lane() {
        check(
            &["", "1", "1, 2", "1", "3, 4"],
            &expect![[r#"
                ●   1
                ├─● 2
                ├─○ 3
                ○ │ 4
                ○─╯ 5
            "#]],
        );
    }
}
