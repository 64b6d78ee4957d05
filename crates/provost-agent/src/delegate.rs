//! Sub-agents: the model hands parts of its task to agents of its own kind, several at a time.
//!
//! Each sub-agent has its own conversation and its own plan, and works in the same folder. It has no
//! sub-agents of its own.
//!
//! **Invariant:** all sub-agents together use at most what is left of the run's budget, and what they use
//! counts as the run's own.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::{Agent, AgentRun, RunEnd, Settings, Stop};
use crate::budget::{LoopBudget, SideAccount};
use crate::call_log::CallLog;
use crate::plan_state::PlanHolder;
use crate::provider::Provider;
use crate::tool::files::Workspace;
use crate::tool::{Catalogue, Tool, ToolAnswer};

/// Most sub-agents of one call.
const MOST: usize = 4;
/// Most calls of the model by one sub-agent.
const TURNS: u32 = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Delegate {
    /// One task for each sub-agent, at most four. A sub-agent knows nothing of this conversation: name the
    /// files, what to do, and what to report.
    tasks: Vec<String>,
}

/// What every sub-agent gets.
struct Team {
    provider: Arc<dyn Provider>,
    workspace: Workspace,
    settings: Settings,
    account: SideAccount,
}

/// Returns the tool. `account` is that of the catalogue that gets the tool.
pub fn tool(
    provider: Arc<dyn Provider>,
    workspace: &Workspace,
    settings: &Settings,
    account: &SideAccount,
) -> Tool {
    let team = Arc::new(Team {
        provider,
        workspace: workspace.clone(),
        settings: settings.clone(),
        account: account.clone(),
    });
    let description = "Gives tasks to sub-agents, which work at the same time in the same folder, each with its own \
                       plan. Use it for parts that do not change the same files, or for long searches. It answers \
                       with their reports; look at what they did before you rely on it.";
    Tool::new("delegate", description, move |ask: Delegate| {
        let team = team.clone();
        async move { team.work(&ask.tasks).await }
    })
}

impl Team {
    async fn work(&self, tasks: &[String]) -> ToolAnswer {
        if tasks.is_empty() || tasks.len() > MOST || tasks.iter().any(|task| task.trim().is_empty()) {
            return Err(format!("give one to {MOST} tasks, none of them empty"));
        }
        let share = self.account.left().share(tasks.len() as u64);
        let runs = join_all(tasks.iter().map(|task| self.run(task, share))).await;
        let mut text = String::new();
        for (number, run) in (1..).zip(&runs) {
            self.account.add(&run.usage, &run.counted);
            let (how, words) = report(&run.outcome);
            let _ = writeln!(text, "## Sub-agent {number}: {how}\n\n{}\n", words.trim());
            if let Some(plan) = &run.plan {
                let _ = writeln!(text, "{}\n", plan.render().trim_end());
            }
        }
        Ok(text.trim_end().to_owned())
    }

    async fn run(&self, task: &str, budget: LoopBudget) -> AgentRun {
        let (holder, ledger) = (PlanHolder::default(), CallLog::default());
        let agent = Agent {
            provider: &*self.provider,
            catalogue: Catalogue::standard(&self.workspace, &ledger).with_plan(&holder, &ledger),
            holder,
            ledger,
            settings: Settings {
                budget,
                form: None,
                max_turns: self.settings.max_turns.min(TURNS),
                ..self.settings.clone()
            },
        };
        agent.run(task, &Stop::default(), &mut |_| {}).await
    }
}

/// Returns how a sub-agent ended, and its last words.
fn report(end: &RunEnd) -> (String, String) {
    match end {
        RunEnd::Finished { answer } => ("finished".to_owned(), answer.clone()),
        RunEnd::Blocked { answer } => ("blocked".to_owned(), answer.clone()),
        RunEnd::Unfinished { bound, answer, .. } => (format!("not finished ({bound})"), answer.clone()),
        RunEnd::Stopped => ("stopped".to_owned(), String::new()),
        RunEnd::Failed(failure) => ("failed".to_owned(), failure.to_string()),
    }
}
