//! Runs an attempt: what the agent is given, where it works, and how its end is reported.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use provost_core::language::parse;
use provost_core::model::approved_spec;
use provost_core::model::event::{AttemptEnd, EndedAttempt, StartTree, TopicPost};
use provost_core::model::plan::{StepNumber, Subscription};
use provost_core::model::run_policy::AgentAccess;
use provost_core::model::transcript::TranscriptEntry;
use provost_core::model::usage::{Amount, Usage};
use provost_core::rules::budget;
use provost_core::rules::command::{AgentCommand, HarnessCommand};
use provost_core::state::run::{Conversation, Run};
use provost_core::text::prompt::{self, PromptContext};
use provost_host::agent::{
    AgentDriver, AgentStatement, AttemptInput, AttemptReport, Outbox, Resume, SpendLimit, StepTools, home,
    instructions,
};
use provost_host::config::{Driver, Role};
use provost_host::egress::meter::Account;
use provost_host::egress::prices;
use provost_host::exec::access::Grant;
use provost_host::exec::environment::{LeftWork, Veil};
use provost_host::plans::trust;
use provost_host::tree::Apart;
use provost_host::{Interrupted, drivers, files};

use super::start::StartTreeInput;
use super::step_worktree::{WorkspaceSync, globs, not_home, place};
use super::{Executor, TaskInput};
use crate::exec::live::LiveOutput;
use crate::exec::transcript::{TranscriptFile, TranscriptKey};
use crate::run_loop::world::TaskOutcome;
use crate::sandbox_forwarder;

/// Maximum size of a subscribed file in a prompt.
const CONTEXT_BYTES: usize = 64 * 1024;

pub struct AttemptOrder {
    pub(super) step: StepNumber,
    pub(super) attempt: u32,
    pub(super) target: String,
    pub(super) revision: String,
    pub(super) prompt: String,
    /// Topics it may write to.
    pub(super) publishes: Vec<String>,
    /// Conversation to resume, and the message for it.
    pub(super) resume: Option<(Conversation, String)>,
    /// What the agent asked for in this step, and a person allowed.
    pub(super) granted: Vec<String>,
    /// Notes of the attempt that are known before it begins.
    pub(super) notes: Vec<String>,
    pub(super) timeout: Duration,
    /// Plan file as the agent may see it, if parts of it are hidden.
    pub(super) veiled: Option<String>,
    pub(super) reach: AgentAccess,
    /// Addresses that count as the model's, as approved.
    pub(super) api: Vec<String>,
    /// The most it may use.
    pub(super) limit: Amount,
    /// It works in its own worktree, made from `tree`: what the previous steps left.
    pub(super) apart: bool,
    pub(super) place: String,
    pub(super) tree: Option<String>,
    pub(super) touches: Vec<String>,
    /// Globs the step may change, if it declares any.
    pub(super) own_touches: Option<Vec<String>>,
    /// Tree it starts with in the workspace, if known.
    pub(super) start: Option<StartTree>,
    /// Input to find that tree, if it is not known.
    pub(super) beginning: Option<StartTreeInput>,
    pub(super) home: Option<WorkspaceSync>,
    /// Folder it works in, or why there is none, if that was made before.
    pub(super) folder: Option<Result<Option<Apart>, String>>,
    /// What previous attempts left elsewhere.
    pub(super) left: Option<LeftWork>,
    /// Data that its tools answer from, if its role has tools.
    pub(super) item: Option<StepTools>,
}

/// What an attempt has open while its agent works.
struct OpenAttempt {
    agent: Box<dyn AgentDriver>,
    /// Folder of the agent's client, and whether it is the folder of the resumed conversation.
    home: Option<(PathBuf, bool)>,
    outbox: Option<PathBuf>,
    /// Account of a metered role.
    account: Option<Account>,
    /// Folder it works in, if that is not the workspace.
    apart: Option<Apart>,
    start: Option<StartTree>,
}

impl Executor<'_> {
    pub(super) fn attempt_order(&self, run: &Run, number: StepNumber) -> TaskInput {
        let Some(step) = run.plan.step(number) else { return TaskInput::Nothing };
        if let Some(errand) = self.errand(run, number) {
            return TaskInput::Errand(Box::new(errand));
        }
        let context: Vec<PromptContext> =
            step.subscriptions.iter().map(|subscription| self.context(run, &subscription.value)).collect();
        let target = run.role(number).to_owned();
        let config = &self.site.config;
        let prompt = prompt::step(run, number, &context, self.instructions(run, &target).as_ref());
        let role = config.agents.get(&target).and_then(|role| role.timeout);
        let timeout = step.timeout.as_ref().map(|timeout| timeout.value).or(role);
        let timeout = timeout.unwrap_or(config.run.step_timeout);
        // No attempt lasts longer than the budget allows.
        let left = run.ledger.held(number).and_then(|held| held.wall_ms).map(Duration::from_millis);
        let terms = &run.binding.terms;
        let apart = self.side_by_side && run.works_apart(number);
        TaskInput::Attempt(Box::new(AttemptOrder {
            step: number,
            attempt: run.step(number).map_or(1, |step| step.attempts),
            reach: self.within_reach(terms.for_step_by(step, &target)),
            api: terms.api.get(&target).cloned().unwrap_or_default(),
            limit: budget::allows(run, number),
            item: self.item(run, number, &target, &prompt, &context),
            notes: self.changed_instructions(run, &target).into_iter().collect(),
            target,
            revision: run.revision.0.clone(),
            prompt: self.site.redactor.text(&prompt).into_owned(),
            resume: self.resume(run, number),
            granted: run.step(number).map_or(Vec::new(), |step| step.granted.clone()),
            publishes: step.publishes.iter().map(|topic| topic.value.clone()).collect(),
            timeout: left.map_or(timeout, |left| timeout.min(left)),
            veiled: veiled(run),
            apart,
            place: place(run, step),
            tree: if apart { self.tree_beside(run) } else { self.tree(run) },
            touches: globs(step).unwrap_or_default(),
            own_touches: globs(step),
            start: run.step(number).and_then(|step| step.start.clone()),
            beginning: self.beginning(run, number),
            home: self.home(run),
            folder: None,
            left: self.workplace.work_to_continue(run, number, apart),
        }))
    }

    /// Returns the data that the tools of the step's agent answer from, if its role has such tools.
    fn item(
        &self,
        run: &Run,
        step: StepNumber,
        role: &str,
        prompt: &str,
        context: &[PromptContext],
    ) -> Option<StepTools> {
        let role = self.site.config.agents.get(role)?;
        let has_topics = context.iter().any(|context| context.name.starts_with("topic:"))
            || run.plan.step(step).is_some_and(|step| !step.publishes.is_empty());
        let is_built_in = matches!(role.driver, Driver::Builtin(_));
        if !(role.tools || is_built_in && has_topics) {
            return None;
        }
        let clean = |text: &str| self.site.redactor.text(text).into_owned();
        let plan = veiled(run).unwrap_or_else(|| {
            approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step))
        });
        let topics = context.iter().filter_map(|context| {
            let name = context.name.strip_prefix("topic:")?.to_owned();
            Some((name, clean(context.content.as_ref().ok()?)))
        });
        Some(StepTools {
            program: self.site.launcher.first().cloned()?,
            step,
            plan: clean(&plan),
            task: clean(prompt),
            topics: topics.collect(),
        })
    }

    fn resume(&self, run: &Run, number: StepNumber) -> Option<(Conversation, String)> {
        let session = run.step(number)?.session.as_deref()?.clone();
        Some((session, self.site.redactor.text(&prompt::resumed(run, number)?).into_owned()))
    }

    /// Returns the project's instructions for the prompt, if the role's agent does not read them by itself.
    fn instructions(&self, run: &Run, role: &str) -> Option<PromptContext> {
        let driver = &self.site.config.agents.get(role)?.driver;
        let file = instructions::of(driver, &self.site.place.workspace).filter(|file| file.in_prompt)?;
        let read = self.context(run, &Subscription::File(file.name.to_owned()));
        Some(PromptContext { name: file.name.to_owned(), ..read })
    }

    /// Returns a note if the agent reads other instructions than those that were shown at the approval.
    fn changed_instructions(&self, run: &Run, role: &str) -> Option<String> {
        let workspace = &self.site.place.workspace;
        let file = instructions::of(&self.site.config.agents.get(role)?.driver, workspace)?;
        let now = file.with_digest(workspace)?;
        let approved = run.binding.terms.instructions.get(role);
        (approved != Some(&now)).then(|| format!("{} is not as it was at the approval", file.name))
    }

    fn context(&self, run: &Run, subscription: &Subscription) -> PromptContext {
        let place = &self.site.place;
        let (name, path) = match subscription {
            Subscription::File(path) => (format!("file:{path}"), place.workspace.join(path)),
            Subscription::Topic(topic) => {
                (format!("topic:{topic}"), place.dir.join("topics").join(format!("{topic}.md")))
            }
        };
        // If agents work in their own worktrees, the workspace may lag behind the passed work.
        let tree = self.home(run).map(|home| home.tree).or_else(|| self.stands_for_the_workspace(run));
        let passed = tree.and_then(|tree| match subscription {
            Subscription::File(path) => self.ground.file_in(&tree, path),
            Subscription::Topic(_) => None,
        });
        let is_topic = matches!(subscription, Subscription::Topic(_));
        if let Err(untrusted) = if is_topic { trust::check(&path) } else { Ok(()) } {
            let content = with_posts(run, name.trim_start_matches("topic:"), Err(untrusted.to_string()));
            return PromptContext { name, content };
        }
        let content = files::beginning(&place.workspace, passed.as_deref().unwrap_or(&path), CONTEXT_BYTES);
        let content = content.map_err(|error| error.to_string());
        if let Subscription::Topic(topic) = subscription {
            return PromptContext { name, content: with_posts(run, topic, content) };
        }
        // The plan file, under any name: hidden parts stay hidden.
        let is_plan =
            path.canonicalize().is_ok_and(|path| place.path.canonicalize().is_ok_and(|own| own == path));
        match veiled(run).filter(|_| is_plan && content.is_ok()) {
            Some(text) => PromptContext { name, content: Ok(text.chars().take(CONTEXT_BYTES).collect()) },
            None => PromptContext { name, content },
        }
    }

    /// Runs the attempt: opens everything it needs, lets the agent work, and reports how it ended.
    pub(super) fn attempt(&self, order: &AttemptOrder) -> Vec<TaskOutcome> {
        let AttemptOrder { step, attempt, .. } = *order;
        let mut open = match self.open_attempt(order) {
            Ok(open) => open,
            Err(reason) => {
                let end = AttemptEnd::NotStarted { reason };
                let ended = EndedAttempt::new(step, attempt, end);
                return vec![TaskOutcome::Harness(HarnessCommand::AttemptEnded(ended))];
            }
        };
        let (done, transcript) = self.work_of(order, &open);
        let left = self.left_by(order, open.start.as_ref());
        let Ok(mut done) = done else {
            return vec![TaskOutcome::Harness(HarnessCommand::AttemptStopped { step, attempt, left })];
        };
        if let Some(account) = open.account.take() {
            self.metering.close(account, &mut done);
        }
        self.attended.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
        if !done.survivors.is_empty() {
            self.haunted().insert(step, done.survivors.clone());
        }
        let Ok((carried, unsent)) = self.send_left(order, open.apart.as_ref()) else {
            return vec![TaskOutcome::Harness(HarnessCommand::AttemptInterrupted { step, attempt })];
        };
        done.notes.extend(order.notes.iter().cloned().chain(unsent));
        let start = open.start.filter(|_| order.start.is_none());
        let ended = EndedAttempt::new(step, attempt, done.end.clone());
        let ended = EndedAttempt { carried, start, left, transcript, ..ended };
        self.outcomes(order, done, ended)
    }

    /// Opens everything the attempt needs; an error if it cannot start.
    fn open_attempt(&self, order: &AttemptOrder) -> Result<OpenAttempt, String> {
        let agent = drivers::agent(&self.site.config, &order.target, &self.site.launcher)?;
        let home = self.client_home(&*agent, order)?;
        let outbox = self.outbox(order)?;
        let apart = order.folder.clone().unwrap_or_else(|| self.folder_of(order))?;
        let start = self.start_of(order)?;
        let account = self.metering.open(self.site, &order.target, order.limit)?;
        Ok(OpenAttempt { agent, home, outbox, account, apart, start })
    }

    /// Updates the workspace, and makes the folder that the agent works in if that is not the workspace.
    pub(super) fn folder_of(&self, order: &AttemptOrder) -> Result<Option<Apart>, String> {
        self.come_home(order.home.as_ref()).map_err(|error| not_home(&error))?;
        self.begin_in(order)
    }

    /// Lets the agent work until it ends. Also returns the digest of the transcript.
    fn work_of(
        &self,
        order: &AttemptOrder,
        open: &OpenAttempt,
    ) -> (Result<AttemptReport, Interrupted>, Option<String>) {
        let OpenAttempt { agent, home, outbox, account, apart, .. } = open;
        let tag = self.tag(order.step, order.attempt);
        let portal = sandbox_forwarder::launcher(&self.site.launcher);
        let grant = Grant {
            role: &order.target,
            reach: order.reach,
            folders: self.site.config.agents.get(&order.target).map(|role| &role.folders),
            api: &order.api,
            launcher: portal.as_slice(),
            meter: account.as_ref().map(Account::address),
        };
        let metered = account.as_ref().map(|account| account.environment(&self.site.agents_environment));
        // Without its folder a client cannot resume the conversation.
        let resume = order.resume.as_ref().filter(|_| home.as_ref().is_none_or(|(_, kept)| *kept));
        let live = LiveOutput::new(self.ground.state(), &self.site.id, order.step);
        let heard = |entry: TranscriptEntry| live.hear(entry);
        let cost = |usage: &Usage| self.cost_of(&order.target, usage);
        let work = AttemptInput {
            prompt: &order.prompt,
            workspace: &self.site.place.workspace,
            step: order.step,
            attempt: order.attempt,
            timeout: order.timeout,
            tag: &tag,
            stop: Some(&self.site.stop),
            fence: None,
            environment: metered.as_ref().unwrap_or(&self.site.agents_environment),
            bounds: Some(self.site.config.run.bounds()),
            home: home.as_ref().map(|(home, _)| home.as_path()),
            resume: resume.map(|(session, prompt)| Resume {
                session: &session.id,
                prompt,
                used: &session.used,
                claim: &session.claim,
            }),
            outbox: outbox.as_ref().map(|folder| Outbox {
                folder,
                topics: &order.publishes,
                item: order.item.as_ref(),
            }),
            heard: Some(&heard),
            limit: account.is_none().then_some(SpendLimit { amount: order.limit, cost: &cost }),
            granted: &order.granted,
            answer_schema: None,
        };
        let veil = order.veiled.as_ref().map(|text| Veil { path: &self.site.place.path, text });
        let key = TranscriptKey { plan: self.site.id.clone(), step: order.step, attempt: order.attempt };
        let file = TranscriptFile::new(self.ground.state(), &key, &order.revision);
        std::thread::scope(|scope| {
            let attended = scope.spawn(|| live.attend(file, |text| self.clean(text)));
            let over = live.until_dropped();
            let done = self.ground.attempt(&**agent, &work, veil, &grant, apart.as_ref());
            drop(over);
            (done, attended.join().ok().flatten())
        })
    }

    /// Returns what follows from the report: the end of the attempt, and what the agent claims or is blocked
    /// by.
    fn outcomes(&self, order: &AttemptOrder, done: AttemptReport, ended: EndedAttempt) -> Vec<TaskOutcome> {
        let step = order.step;
        let clean = |text: &str| self.clean(text.trim());
        let said = done.said.map(|said| AgentStatement { text: clean(&said.text), ..said });
        let words = match said.as_ref().filter(|said| !said.blocked) {
            Some(said) => format!("{}\n\n{}", said.text, clean(&done.report)).trim_end().to_owned(),
            None => clean(&done.report),
        };
        // The agent reported explicitly that it cannot continue. If it only failed, the contract decides.
        let block = said.filter(|said| said.blocked && matches!(done.end, AttemptEnd::Exited { .. }));
        let block = block.map(|said| TaskOutcome::Agent(AgentCommand::Block { step, reason: said.text }));
        // The last words of an agent that exited with 0 are its claim; otherwise they are its report.
        let claims = done.end == (AttemptEnd::Exited { exit_code: 0 }) && !words.is_empty();
        let (report, claim) = match claims {
            true => (String::new(), Some(TaskOutcome::Agent(AgentCommand::Claim { step, evidence: words }))),
            // The reason for a failure can be in either stream, mostly at the end.
            false => {
                let stderr = clean(&done.stderr.to_string());
                let parts = if done.has_reason { [stderr, words] } else { [words, stderr] };
                (parts.join("\n").trim().to_owned(), None)
            }
        };
        let role = self.site.config.agents.get(&order.target);
        let model = role.and_then(|role| role.model.as_deref());
        let usage = Usage { model: done.usage.model.as_deref().map(clean), ..done.usage };
        let posts = done.published.into_iter();
        let ended = TaskOutcome::Harness(HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: done.duration.as_millis() as u64,
            report,
            notes: done.notes.iter().map(|note| clean(note)).collect(),
            usage: prices::priced(&self.site.config.prices, model, usage),
            session: done.session,
            asks: done.asks.as_deref().map(clean),
            published: posts.map(|post| TopicPost { text: clean(&post.text), ..post }).collect(),
            rewrites: done.rewrites.iter().map(|diff| clean(diff)).collect(),
            outside: done.outside,
            ..ended
        }));
        std::iter::once(ended).chain(claim).chain(block).collect()
    }

    /// Returns the cost of a role's usage, if it can be computed.
    fn cost_of(&self, role: &str, usage: &Usage) -> Option<u64> {
        let config = &self.site.config;
        let model = config.agents.get(role).and_then(Role::asks);
        prices::priced(&config.prices, model, usage.clone()).micro_usd
    }

    /// Returns the text without the secrets of the environment and of metered roles.
    pub(super) fn clean(&self, text: &str) -> String {
        self.metering.clean(self.site.redactor.text(text).into_owned())
    }

    /// Returns the folder of the agent's client, if it has one, and whether it is the folder of the resumed
    /// conversation.
    fn client_home(
        &self,
        agent: &dyn AgentDriver,
        order: &AttemptOrder,
    ) -> Result<Option<(PathBuf, bool)>, String> {
        if !agent.has_client() {
            return Ok(None);
        }
        let opened =
            home::open(self.ground.state(), &self.site.id.to_string(), order.step, order.resume.is_some());
        opened.map(Some).map_err(|error| format!("no folder could be made for its client: {error}"))
    }

    fn outbox(&self, order: &AttemptOrder) -> Result<Option<PathBuf>, String> {
        if order.publishes.is_empty() && order.item.is_none() {
            return Ok(None);
        }
        let made = home::outbox(self.ground.state(), &self.site.id.to_string(), order.step);
        made.map(Some).map_err(|error| format!("no folder could be made for its topics: {error}"))
    }
}

/// Appends the posts of steps to what people wrote to a topic.
fn with_posts(run: &Run, topic: &str, kept: Result<String, String>) -> Result<String, String> {
    let posts: Vec<String> =
        run.posts(topic).map(|(step, text)| format!("From step {step}:\n\n{text}")).collect();
    match (posts.is_empty(), kept) {
        (true, kept) => kept,
        (false, Ok(kept)) => Ok(format!("{}\n\n{}", kept.trim_end(), posts.join("\n\n"))),
        (false, Err(_)) => Ok(posts.join("\n\n")),
    }
}

/// Returns the plan as agents may see it, if parts of it are hidden from them.
fn veiled(run: &Run) -> Option<String> {
    if !run.hides {
        return None;
    }
    let marked = approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
    prompt::veiled(&marked, &parse::plan(&marked).plan)
}
