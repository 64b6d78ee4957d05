//! Writes the summary as tables. Columns without content are left out.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::{AgentName, AgentRow, Effort, PartialSum, PlanRow, PlansSummary};

const TITLE_WIDTH: usize = 32;
const NOTHING: &str = "-";
const UNKNOWN: &str = "unknown";

impl fmt::Display for PlansSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.plans.is_empty() {
            return f.write_str("the log is empty\n");
        }
        for plan in &self.plans {
            writeln!(f, "{}: {} · {}", plan.plan, plan.title, plan.stage)?;
            if let Some(from) = plan.forged_from {
                writeln!(
                    f,
                    "another program wrote to the log from event {from} on; these numbers include it"
                )?;
            }
            writeln!(f, "{}", steps(plan))?;
        }
        if self.plans.len() > 1 {
            writeln!(f, "{} plans", self.plans.len())?;
            let mut table = Table::new(&TAKEN);
            table.row(["all plans".to_owned(), String::new()].into_iter().chain(taken(&self.total)));
            writeln!(f, "{table}")?;
        }
        let agents = self.agents();
        if agents.is_empty() {
            return f.write_str("no agent has worked yet\n");
        }
        writeln!(f, "agents, by cost per verified step, or by time if the cost is unknown")?;
        let mut table = Table::new(&AGENTS);
        for (agent, row) in agents {
            table.row(of_agent(agent, row));
        }
        write!(f, "{table}")
    }
}

const TAKEN: [&str; 11] = [
    "step", "state", "attempts", "failures", "recipes", "agent", "check", "person", "pause", "tokens", "cost",
];
const AGENTS: [&str; 9] =
    ["agent", "model", "verified", "attempts", "cost/step", "time/step", "time", "tokens", "cost"];

fn steps(plan: &PlanRow) -> Table {
    let mut table = Table::new(&TAKEN);
    for step in &plan.steps {
        let name = shortened(&format!("{}. {}", step.number, step.title));
        table.row([name, step.state.to_owned()].into_iter().chain(taken(&step.taken)));
    }
    if plan.itself != Effort::default() {
        table.row(["the plan itself".to_owned(), String::new()].into_iter().chain(taken(&plan.itself)));
    }
    table.row(["total".to_owned(), String::new()].into_iter().chain(taken(&plan.total)));
    table
}

fn taken(taken: &Effort) -> [String; 9] {
    [
        count(taken.attempts),
        counts(&taken.classes),
        counts(&taken.recipes),
        time(taken.agent_ms),
        time(taken.check_ms),
        time(taken.person_ms),
        time(taken.pause_ms),
        sum(taken.tokens, tokens),
        sum(taken.micro_usd, dollars),
    ]
}

fn of_agent(agent: &AgentName, row: &AgentRow) -> [String; 9] {
    let cost = match (row.verified, row.micro_usd_per_verified()) {
        (0, _) => NOTHING.to_owned(),
        (_, Some(cost)) => dollars(cost),
        (_, None) => UNKNOWN.to_owned(),
    };
    [
        agent.role.clone(),
        agent.model.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
        row.verified.to_string(),
        row.attempts.to_string(),
        cost,
        row.ms_per_verified().map_or_else(|| NOTHING.to_owned(), time),
        time(row.agent_ms),
        sum(row.tokens, tokens),
        sum(row.micro_usd, dollars),
    ]
}

fn count(count: u32) -> String {
    if count == 0 { NOTHING.to_owned() } else { count.to_string() }
}

/// Writes `logic 2, transient`.
fn counts<K: AsRef<str>>(counts: &BTreeMap<K, u32>) -> String {
    let words = counts.iter().map(|(name, times)| match times {
        1 => name.as_ref().to_owned(),
        times => format!("{} {times}", name.as_ref()),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") }
}

/// Formats a sum; `≥` if it is incomplete.
fn sum(sum: PartialSum, words: fn(u64) -> String) -> String {
    match (sum.counted, sum.uncounted) {
        (0, 0) => NOTHING.to_owned(),
        (0, _) => UNKNOWN.to_owned(),
        (_, 0) => words(sum.known),
        (_, _) => format!("≥ {}", words(sum.known)),
    }
}

fn time(ms: u64) -> String {
    let seconds = ms / 1_000;
    match ms {
        0 => NOTHING.to_owned(),
        1..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600_000..86_400_000 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{:02}M", count / 1_000_000, count % 1_000_000 / 10_000),
    }
}

/// Formats money; cents are too coarse for a short attempt.
fn dollars(micro: u64) -> String {
    match micro {
        0 => "$0".to_owned(),
        1..100 => format!("${}.{:06}", micro / 1_000_000, micro % 1_000_000),
        100..1_000_000 => format!("$0.{:04}", micro / 100),
        _ => format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= TITLE_WIDTH {
        return text.to_owned();
    }
    let start: String = text.chars().take(TITLE_WIDTH - 1).collect();
    format!("{}…", start.trim_end())
}

/// A table with columns as wide as their content.
struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the columns with content.
    fn columns(&self) -> Vec<usize> {
        let says = |cell: &String| !cell.is_empty() && cell != NOTHING;
        (0..self.head.len()).filter(|column| self.rows.iter().any(|row| says(&row[*column]))).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        let width = |column: &usize| {
            let cells = self.rows.iter().map(|row| row[*column].chars().count());
            cells.chain([self.head[*column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = columns.iter().map(width).collect();
        let mut line = |cells: Vec<&str>| {
            let mut text = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(text, "  {cell:<width$}");
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(columns.iter().map(|column| self.head[*column]).collect())?;
        for row in &self.rows {
            line(columns.iter().map(|column| row[*column].as_str()).collect())?;
        }
        Ok(())
    }
}
