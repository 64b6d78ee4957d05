use provost_engine::plan::commands;
use std::time::Duration;

use crate::open_plan::Global;
use crate::outcome::Answer;

/// Look at the cluster: workers, queues, what waits and for how long, what went wrong
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost cluster status                         who works, what waits
  provost cluster status --json                  for programs
  provost cluster limit coder --concurrency 4    no more than four agents of this role at once, anywhere
  provost cluster limit coder --rate 3/2s        begin no more than three in two seconds
  provost cluster limit coder                    lift its limits
  provost cluster wake PLAN                      have somebody look at a plan now
  provost cluster remote git@host:carry.git      trees travel by this git remote; docs/cluster.md
  provost cluster push PLAN                      send what the plan was approved on to it")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Who works, what waits and for how long, which plans do not get on
    Status,
    /// Say how much of a role's work may be under way, everywhere; without options, lift the limits
    Limit {
        /// A role, or `judge` for checks
        role: String,
        /// So many at once
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        concurrency: Option<i32>,
        /// So many begun in a time, such as 3/2s
        #[arg(long, value_name = "N/TIME", value_parser = rate)]
        rate: Option<Rate>,
    },
    /// Say by which git remote trees travel between machines that share no disk; without an address, show it
    Remote {
        /// An address that all machines reach, without a password
        #[arg(value_name = "URL")]
        address: Option<String>,
        /// None any more
        #[arg(long, conflicts_with = "address")]
        none: bool,
    },
    /// Send what a plan was approved on to the git remote; `provost approve` does it, too
    Push {
        /// A path, a name, or nothing for the active plan
        plan: Option<String>,
    },
    /// Have somebody look at a plan now
    Wake {
        /// A path, a name, or nothing for the active plan
        plan: Option<String>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    most: i32,
    period: Duration,
}

fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "it is written like 3/2s".to_owned();
    let (most, period) = text.split_once('/').ok_or_else(wrong)?;
    let most = most.trim().parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?;
    let period = humantime::parse_duration(period.trim()).map_err(|error| error.to_string())?;
    if period.is_zero() { Err(wrong()) } else { Ok(Rate { most, period }) }
}

#[cfg(not(feature = "cluster"))]
pub fn obey(_global: &Global, args: Args) -> Answer {
    if let What::Limit { rate: Some(Rate { most, period }), .. } = args.what {
        let _ = (most, period);
    }
    Err(crate::failure::no_cluster())
}

#[cfg(feature = "cluster")]
pub fn obey(global: &Global, args: Args) -> Answer {
    use provost_dbos::status::ClusterView;
    use provost_engine::observe::overview::Overview;
    use provost_engine::plan::human_check::Who;
    use provost_engine::plan::remote_tree;
    use provost_engine::settings::Access;

    use crate::outcome::Outcome;
    use crate::terminal;

    let settings = global.settings(None)?;
    let desk = || ClusterView::open(&settings);
    match args.what {
        What::Status => show(global, &desk()?.status()?)?,
        What::Remote { address: None, none: false } => {
            let address = remote_tree::address(&settings.state)?;
            match (global.json, address) {
                (true, address) => {
                    terminal::print(&format!("{}\n", serde_json::json!({ "remote": address })))?
                }
                (false, Some(address)) => terminal::print(&format!("{address}\n"))?,
                (false, None) => terminal::talk("none is set: workers share a disk"),
            }
        }
        What::Remote { address, .. } => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            remote_tree::set_address(&settings.state, address.as_deref())?;
            terminal::talk("it holds for workers that are started from now on, and for what is approved");
        }
        What::Push { plan } => {
            let harness = global.open(plan.as_deref(), Access::Write)?;
            commands::only_people(&harness)?;
            if !remote_tree::offer_base(&harness, &harness.run()?)? {
                return Err(crate::failure::Failure::usage(
                    "no git remote is set here",
                    "Say which: `provost cluster remote URL`.",
                ));
            }
            terminal::talk("the git remote has what the plan was approved on");
        }
        What::Limit { role, concurrency, rate } => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            desk()?.limit(&role, concurrency, rate.map(|rate| (rate.most, rate.period)))?;
            terminal::talk("it holds from now on");
        }
        What::Wake { plan } => {
            let harness = global.open(plan.as_deref(), Access::Write)?;
            commands::only_people(&harness)?;
            desk()?.wake(&harness.id().to_string())?;
            terminal::talk("whoever has a hand free looks at it");
        }
    }
    Ok(Outcome::Done)
}

#[cfg(feature = "cluster")]
fn show(
    global: &Global,
    status: &provost_dbos::status::ClusterStatus,
) -> Result<(), crate::failure::Failure> {
    use crate::{table, terminal};

    if global.json {
        let text = serde_json::to_string(status).unwrap_or_default();
        return terminal::print(&format!("{text}\n"));
    }
    if status.workers.is_empty() {
        terminal::talk("nobody works: start one with `provost worker`");
    } else {
        let rows: Vec<Vec<String>> = status.workers.iter().map(worker).collect();
        terminal::print(&table::lines(&["WORKER", "BUSY", "SEEN", "ROLES", "LABELS"], &rows))?;
    }
    let rows: Vec<Vec<String>> = status.queues.iter().map(queue).collect();
    terminal::print("\n")?;
    terminal::print(&table::lines(&["QUEUE", "WAITING", "RUNNING", "LATER", "LAG", "LIMITS"], &rows))?;
    if !status.items.is_empty() {
        let rows: Vec<Vec<String>> = status
            .items
            .iter()
            .map(|item| {
                let who = item.worker.clone().unwrap_or_else(|| "-".to_owned());
                vec![item.plan.clone(), item.item.clone(), item.pool.clone(), time(item.age_ms), who]
            })
            .collect();
        terminal::print("\n")?;
        terminal::print(&table::lines(&["PLAN", "ITEM", "POOL", "AGE", "WORKER"], &rows))?;
    }
    for trouble in &status.troubles {
        terminal::print(&format!("\n{} ({} ago): {}\n", trouble.plan, time(trouble.age_ms), trouble.what))?;
    }
    for late in &status.refused {
        let when = time(late.age_ms);
        terminal::print(&format!(
            "\n{}: {} of {} came too late, {when} ago\n",
            late.plan, late.item, late.worker
        ))?;
    }
    Ok(())
}

#[cfg(feature = "cluster")]
fn worker(worker: &provost_dbos::status::Worker) -> Vec<String> {
    let state = match (worker.missing, worker.drains) {
        (true, _) => " (missing)",
        (false, true) => " (leaving)",
        (false, false) => "",
    };
    vec![
        worker.id.clone(),
        format!("{} of {}", worker.busy, worker.jobs),
        format!("{} ago{state}", time(worker.seen_ms)),
        worker.roles.as_ref().map_or("any".to_owned(), |roles| roles.join(",")),
        worker.labels.join(","),
    ]
}

#[cfg(feature = "cluster")]
fn queue(queue: &provost_dbos::status::Queue) -> Vec<String> {
    let mut limits = Vec::new();
    limits.extend(queue.concurrency.map(|most| format!("{most} at once")));
    limits.extend(queue.rate.map(|most| format!("{most} in {}", time(queue.rate_period_ms.unwrap_or(0)))));
    limits.extend((queue.foreign > 0).then(|| format!("{} wait for another version", queue.foreign)));
    vec![
        queue.name.clone(),
        queue.waiting.to_string(),
        queue.running.to_string(),
        queue.delayed.to_string(),
        time(queue.lag_ms),
        limits.join(", "),
    ]
}

#[cfg(feature = "cluster")]
fn time(ms: i64) -> String {
    let ms = ms.max(0).cast_unsigned();
    let rounded = if ms < 10_000 { ms } else { ms / 1000 * 1000 };
    humantime::format_duration(Duration::from_millis(rounded)).to_string()
}
