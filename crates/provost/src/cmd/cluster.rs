use std::time::Duration;

use provost_core::model::usage::Amount;

use crate::open_plan::Global;
use crate::outcome::Answer;

mod budget;

/// Show and control the cluster: workers, queues, waiting items, errors
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost cluster status                         workers, queues, waiting items
  provost cluster status --json                  for programs
  provost cluster limit coder --concurrency 4    at most four agents of this role, on all machines
  provost cluster limit coder --rate 3/2s        start at most three in two seconds
  provost cluster limit coder                    remove its limits
  provost cluster budget 'max $500, 40m tokens'  limit what all plans use together
  provost cluster wake PLAN                      make a worker schedule the plan now
  provost cluster trust KEY                      let the checks of a worker count, by its key
  provost cluster break-lease PLAN               take a plan away from a run or a worker that keeps it
  provost cluster prepare                        create or update the tables, before workers start
  provost cluster remote git@host:carry.git      exchange trees through this git remote
  provost cluster push PLAN                      push the approved base of the plan to it")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// List workers, queues, waiting items and plans with errors
    #[command(after_help = "Examples:\n  provost cluster status --json")]
    Status,
    /// Limit how much work of a role runs on all machines; without options, remove the limits
    #[command(after_help = "Examples:\n  provost cluster limit coder --concurrency 4")]
    Limit {
        /// A role, or `judge` for checks
        role: String,
        /// Maximum number that run at once
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        concurrency: Option<i32>,
        /// Maximum number that start in a period, such as 3/2s
        #[arg(long, value_name = "N/TIME", value_parser = rate)]
        rate: Option<Rate>,
    },
    /// Limit what all plans of the log use together; without limits, show the budget and what is used
    ///
    /// If it is used up, no new attempt begins, and the plans wait until it is raised. Only the owner of the log
    /// sets it, or a login with the role `provost_operator`.
    #[command(after_help = "\
Examples:
  provost cluster budget 'max $500, 40m tokens'   set it, or raise it
  provost cluster budget                          show it
  provost cluster budget --none                   take it away")]
    Budget {
        /// Limits in tokens and dollars
        #[arg(value_parser = budget::limits)]
        limits: Option<Amount>,
        /// Take the budget away
        #[arg(long, conflicts_with = "limits")]
        none: bool,
    },
    /// Set the git remote that carries trees between machines without a shared disk; without a URL, show it
    #[command(after_help = "Examples:\n  provost cluster remote git@host:carry.git")]
    Remote {
        /// Address that all machines can reach, without a password in it
        #[arg(value_name = "URL")]
        address: Option<String>,
        /// Remove the setting
        #[arg(long, conflicts_with = "address")]
        none: bool,
    },
    /// Push the approved base of a plan to the git remote; `provost approve` does this too
    #[command(after_help = "Examples:\n  provost cluster push PLAN.md")]
    Push {
        /// Path or name of the plan [default: the active plan]
        plan: Option<String>,
    },
    /// Let the checks of a worker count whose login is only a worker's; without a key, list the trusted keys
    #[command(after_help = "Examples:\n  provost cluster trust 1f2e…  --name build7")]
    Trust {
        /// The key that the worker printed when it was refused
        key: Option<String>,
        /// A name for the machine of the key
        #[arg(long, requires = "key")]
        name: Option<String>,
        /// Let nothing count that the key signed, now and in the past
        #[arg(long, requires = "key", conflicts_with = "name")]
        revoke: bool,
    },
    /// Take a plan away from the run or worker that holds it; recorded in the log
    #[command(after_help = "Examples:\n  provost cluster break-lease PLAN.md")]
    BreakLease {
        /// Path or name of the plan [default: the active plan]
        plan: Option<String>,
        /// The lease of the plan's folder too
        #[arg(long)]
        workspace: bool,
    },
    /// Create or update the tables of the log and the cluster
    ///
    /// Its login must own the database. Workers that start afterwards need fewer rights.
    #[command(after_help = "Examples:\n  provost cluster prepare")]
    Prepare,
    /// Make a worker schedule a plan now
    #[command(after_help = "Examples:\n  provost cluster wake PLAN.md")]
    Wake {
        /// Path or name of the plan [default: the active plan]
        plan: Option<String>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    most: i32,
    period: Duration,
}

fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "write it as 3/2s: a number and a period".to_owned();
    let (most, period) = text.split_once('/').ok_or_else(wrong)?;
    let most = most.trim().parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?;
    let period = humantime::parse_duration(period.trim()).map_err(|error| error.to_string())?;
    if period.is_zero() { Err(wrong()) } else { Ok(Rate { most, period }) }
}

#[cfg(not(feature = "cluster"))]
pub(super) fn obey(_global: &Global, args: Args) -> Answer {
    if let What::Limit { rate: Some(Rate { most, period }), .. } = args.what {
        let _ = (most, period);
    }
    Err(crate::failure::no_cluster())
}

#[cfg(feature = "cluster")]
pub(super) fn obey(global: &Global, args: Args) -> Answer {
    use provost_dbos::status::ClusterView;
    use provost_dbos::{remote, remote_base};
    use provost_engine::observe::overview::Overview;
    use provost_engine::plan::human_check::Who;
    use provost_engine::settings::Access;

    use crate::outcome::Outcome;
    use crate::terminal;

    let settings = global.settings(None)?;
    let desk = || ClusterView::open(&settings);
    match args.what {
        What::Status => show(global, &desk()?.status()?)?,
        What::Remote { address: None, none: false } => {
            show_remote(global, remote::address(&settings.state)?)?;
        }
        What::Remote { address, .. } => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            remote::set_address(&settings.state, address.as_deref())?;
            terminal::talk("saved; it applies to workers started from now on and to new approvals");
        }
        What::Push { plan } => {
            let harness = global.open(plan.as_deref(), Access::Write)?;
            provost_engine::plan::commands::only_people(&harness)?;
            if !remote_base::push(&harness, &harness.run()?)? {
                return Err(crate::failure::Failure::usage(
                    "no git remote is set here",
                    "Set one with `provost cluster remote URL`.",
                ));
            }
            terminal::talk("the git remote has the approved base of the plan");
        }
        What::Budget { limits, none } => {
            budget::obey(global, &settings, none.then(Amount::default).or(limits))?;
        }
        What::Limit { role, concurrency, rate } => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            desk()?.limit(&role, concurrency, rate.map(|rate| (rate.most, rate.period)))?;
            terminal::talk("saved; the limits apply from now on");
        }
        What::Trust { key: None, .. } => show_keys(global, &desk()?.trusted_keys()?)?,
        What::Trust { key: Some(key), name, revoke } => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            desk()?.trust(&key, name.as_deref().unwrap_or(""), !revoke)?;
            let said =
                if revoke { "nothing counts that this key signed" } else { "checks of this key count" };
            terminal::talk(said);
        }
        What::BreakLease { plan, workspace } => {
            let harness = global.open(plan.as_deref(), Access::Write)?;
            break_leases(&desk()?, &harness, workspace)?;
        }
        What::Prepare => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            provost_dbos::worker::prepare(&settings)?;
            terminal::talk("the tables of the log and the cluster are up to date");
        }
        What::Wake { plan } => {
            let harness = global.open(plan.as_deref(), Access::Write)?;
            provost_engine::plan::commands::only_people(&harness)?;
            desk()?.wake(&harness.id().to_string())?;
            terminal::talk("a free worker schedules the plan now");
        }
    }
    Ok(Outcome::Done)
}

#[cfg(feature = "cluster")]
fn show(
    global: &Global,
    status: &provost_dbos::status::ClusterStatus,
) -> Result<(), crate::failure::Failure> {
    use crate::cluster_rows::{item, queue, time, worker};
    use crate::visible_text::line;
    use crate::{table, terminal};

    // Other machines wrote all of this.
    let shown = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| line(cell)).collect()).collect()
    };

    if global.json {
        let text = serde_json::to_string(status).unwrap_or_default();
        return terminal::print(&format!("{text}\n"));
    }
    if status.workers.is_empty() {
        terminal::talk("no worker is running; start one with `provost worker`");
    } else {
        let rows = shown(status.workers.iter().map(worker).collect());
        terminal::print(&table::lines(&["WORKER", "BUSY", "SEEN", "ROLES", "LABELS"], &rows))?;
    }
    let rows = shown(status.queues.iter().map(queue).collect());
    terminal::print("\n")?;
    terminal::print(&table::lines(&["QUEUE", "WAITING", "RUNNING", "LATER", "LAG", "LIMITS"], &rows))?;
    if !status.items.is_empty() {
        let rows = shown(status.items.iter().map(item).collect());
        terminal::print("\n")?;
        terminal::print(&table::lines(&["PLAN", "ITEM", "POOL", "AGE", "WORKER"], &rows))?;
    }
    for unserved in &status.unserved {
        terminal::print(&format!("\n{}: {}\n", line(&unserved.plan), line(&unserved.says())))?;
    }
    for trouble in &status.troubles {
        let (plan, what) = (line(&trouble.plan), line(&trouble.what));
        terminal::print(&format!("\n{plan} ({} ago): {what}\n", time(trouble.age_ms)))?;
    }
    for late in &status.refused {
        let when = time(late.age_ms);
        terminal::print(&format!(
            "\n{}: the result of {} by {} came too late, {when} ago, and was refused\n",
            line(&late.plan),
            line(&late.item),
            line(&late.worker)
        ))?;
    }
    Ok(())
}

#[cfg(feature = "cluster")]
fn show_keys(
    global: &Global,
    keys: &[provost_dbos::status::TrustedKey],
) -> Result<(), crate::failure::Failure> {
    use crate::visible_text::line;
    use crate::{table, terminal};

    if global.json {
        let row = |key: &provost_dbos::status::TrustedKey| serde_json::json!({ "key": key.key, "name": key.name, "added_by": key.added_by });
        let rows: Vec<_> = keys.iter().map(row).collect();
        return terminal::print(&format!("{}\n", serde_json::Value::from(rows)));
    }
    if keys.is_empty() {
        terminal::talk("no key is trusted; workers whose login is only a worker's run no checks");
        return Ok(());
    }
    let rows = keys.iter().map(|key| vec![key.key.clone(), line(&key.name), line(&key.added_by)]);
    terminal::print(&table::lines(&["KEY", "NAME", "TRUSTED BY"], &rows.collect::<Vec<_>>()))
}

#[cfg(feature = "cluster")]
fn show_remote(global: &Global, address: Option<String>) -> Result<(), crate::failure::Failure> {
    use crate::terminal;

    match (global.json, address) {
        (true, address) => terminal::print(&format!("{}\n", serde_json::json!({ "remote": address }))),
        (false, Some(address)) => terminal::print(&format!("{address}\n")),
        (false, None) => {
            terminal::talk("no git remote is set; workers share a disk");
            Ok(())
        }
    }
}

/// Takes the plan with its steps, and its folder if that is wanted, away from the holders, and records it.
#[cfg(feature = "cluster")]
fn break_leases(
    desk: &provost_dbos::status::ClusterView,
    plan: &provost_engine::plan::harness::Harness,
    workspace: bool,
) -> Result<(), crate::failure::Failure> {
    use provost_core::rules::command::HumanCommand;
    use provost_engine::plan::{commands, harness};

    commands::only_people(plan)?;
    let folder = format!("workspace {}", plan.place().workspace.display());
    for lease in harness::leases_at_work(plan)?.into_iter().chain(workspace.then_some(folder)) {
        let held_by = desk.break_lease(&lease)?;
        crate::terminal::talk(&format!("broke the lease `{lease}`, which {held_by} held"));
        let broken = HumanCommand::BreakLease { lease, held_by, by: plan.person() };
        commands::human(plan, broken)?;
    }
    Ok(())
}
