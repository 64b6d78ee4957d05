//! The harness's hands in the real world: they give work to agents and run checks.
//!
//! An order carries everything a deed needs, taken from the run on the loop's thread; carrying it out
//! touches the machine and nothing of the run.
//!
//! **Invariant:** the contract that is run is the one of the revision in the log, never of a file.

mod union;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::chain::Timestamp;
use provost_core::command::{AgentCommand, HarnessCommand};
use provost_core::event::{AttemptEnd, Ended, Post, Subject};
use provost_core::plan::{Check, Contract, Shell, Span, Step, StepNumber, Subscription};
use provost_core::prompt::{self, Context};
use provost_core::recover::recipe::Recipes;
use provost_core::run::{Run, Session};
use provost_core::schedule::Action;
use provost_core::terms::Reach;
use provost_core::usage::{Amount, Usage};
use provost_core::verdict::{Excerpt, Isolation, Outcome, Verdict};
use provost_core::{budget, judgement, law, parse};
use provost_host::Interrupted;
use provost_host::agent::{Agent, Item, Outbox, Resume, Saying, Work, home};
use provost_host::ground::{Case, Ground, Veil};
use provost_host::meter::Account;
use provost_host::process::Survivor;
use provost_host::reach::Grant;
use provost_host::teeth::{Before, Doubts};
use provost_host::tree::Apart;
use provost_host::{files, prices, process, roster};

use crate::errand::{Carrier, Errand, Within};

mod apart;
mod carried;

use self::apart::{Home, globs, not_home, place};
use self::carried::Courier;
use crate::live::Live;
use crate::metering::Metering;
use crate::model_judge::Bench;
use crate::portal;
use crate::site::{self, Site};
use crate::watch_over::Watch;
use crate::worker::Worker;
use crate::world::{Said, World};

/// At most this much of a subscribed file reaches a prompt.
const CONTEXT_BYTES: usize = 64 * 1024;

/// While a step waits, people and signals are listened to this often.
const EAR: Duration = Duration::from_millis(100);

pub struct Hands<'a> {
    site: &'a Site,
    ground: Ground,
    /// Over the harness's own files, where agents are given work.
    watch: Option<&'a Watch>,
    /// Work is given to agents here; elsewhere somebody does it of their own accord.
    dispatches: bool,
    /// Steps whose attempt left something running that could not be ended.
    haunted: Mutex<BTreeMap<StepNumber, Vec<Survivor>>>,
    /// Steps whose processes are all of these hands: somebody who died has left nothing of them.
    attended: Mutex<BTreeSet<StepNumber>>,
    metering: Metering,
    session: Option<Looking>,
    /// Several agents may be at work at a time.
    side_by_side: bool,
    /// Up to which event the workspace was brought, and what was left alone in it.
    at_home: Mutex<(u64, Vec<String>)>,
    /// Has steps carried out by other plans.
    carrier: Option<&'a dyn Carrier>,
    /// Where this plan carries out a step of another.
    within: Option<&'a Within>,
    /// Where trees travel between machines.
    courier: Option<Courier<'a>>,
}

/// A session that the harness did not start: what it left is looked at, once.
struct Looking {
    client: String,
    looked: Mutex<Vec<Subject>>,
    /// Something did not hold, or is to be waited for: the session has the word.
    is_over: AtomicBool,
}

impl Looking {
    /// Whether this was not looked at before. What is due again so soon did not hold.
    fn is_new(&self, subject: Subject) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !looked.contains(&subject);
        match is_new {
            true => looked.push(subject),
            false => self.end(),
        }
        is_new
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A deed to be done.
pub enum Order {
    Attempt(Box<AttemptOrder>),
    Errand(Box<Errand>),
    Check(Box<CheckOrder>),
    Nothing,
}

pub struct AttemptOrder {
    step: StepNumber,
    attempt: u32,
    target: String,
    prompt: String,
    /// Topics it may write to.
    publishes: Vec<String>,
    /// The conversation to go on with, and what is said in it.
    resume: Option<(Session, String)>,
    timeout: Duration,
    /// The plan file as the agent may see it, where some of it is hidden.
    veiled: Option<String>,
    reach: Reach,
    /// Addresses that count as the model's, as they were approved.
    api: Vec<String>,
    /// The most it may use.
    limit: Amount,
    /// It works in a tree of its own, from this one on: what the steps before left.
    apart: bool,
    place: String,
    tree: Option<String>,
    touches: Vec<String>,
    home: Option<Home>,
    /// Where trees travel: what the attempt before it left.
    work: Option<String>,
    /// What its tools are to tell, where its role has them.
    item: Option<Item>,
}

pub struct CheckOrder {
    subject: Subject,
    check: Option<Check>,
    timeout: Duration,
    attempt: u32,
    /// The attempt was in flight when the harness died.
    lost: bool,
    /// The tree the steps before left.
    tree: Option<String>,
    /// What the agent changed takes part.
    with_work: bool,
    /// It is known to hold on that very tree.
    known: bool,
    protect: Vec<String>,
    network: bool,
    runs: u32,
    doubts: Doubts,
    /// Whoever did the work of the step.
    worker: String,
    /// Where that was, if not in the workspace.
    apart: Option<Apart>,
    /// What the step may change, where it says so.
    touches: Option<Vec<String>>,
    home: Option<Home>,
    /// Where trees travel: why there is nothing to judge.
    unseen: Option<String>,
    /// The most that a model may use which judges.
    limit: Amount,
}

impl CheckOrder {
    fn step(&self) -> StepNumber {
        match self.subject {
            Subject::Precondition(step)
            | Subject::Control(step)
            | Subject::Contract(step)
            | Subject::Final(step) => step,
            Subject::Postcondition(_) => StepNumber(0),
        }
    }
}

impl<'a> Hands<'a> {
    pub fn new(site: &'a Site, ground: Ground) -> Self {
        Self {
            site,
            ground,
            watch: None,
            dispatches: true,
            haunted: Mutex::default(),
            attended: Mutex::default(),
            metering: Metering::default(),
            session: None,
            side_by_side: false,
            at_home: Mutex::default(),
            carrier: None,
            within: None,
            courier: None,
        }
    }

    pub fn delegating(self, carrier: &'a dyn Carrier) -> Self {
        Self { carrier: Some(carrier), ..self }
    }

    pub fn within(self, within: Option<&'a Within>) -> Self {
        Self { within, ..self }
    }

    /// The tree the steps before left, of this plan or of the one above.
    fn tree(&self, run: &Run) -> Option<String> {
        run.tree.clone().or_else(|| self.within?.tree.clone())
    }

    /// The step, as the plan that carries it out is told of it.
    fn errand(&self, run: &Run, number: StepNumber) -> Option<Errand> {
        let plan = run.carried_by(number)?.to_owned();
        let wall_ms = run.ledger.held(number).and_then(|held| held.wall_ms);
        Some(Errand {
            step: number,
            attempt: run.step(number).map_or(1, |step| step.attempts),
            plan,
            tree: self.tree(run),
            limit: Amount { wall_ms, ..budget::allows(run, number) },
            timeout: run.plan.step(number)?.timeout.as_ref().map(|timeout| timeout.value),
        })
    }

    /// Gives no work to agents: a session of this client does it.
    fn for_a_session(self, client: &str) -> Self {
        let session =
            Looking { client: client.to_owned(), looked: Mutex::default(), is_over: AtomicBool::new(false) };
        Self { session: Some(session), ..self }
    }

    pub fn watched(self, watch: &'a Watch) -> Self {
        // Elsewhere they cannot be carved out of the workspace.
        watch.behind_a_fence(self.ground.level == Isolation::Clean);
        Self { watch: Some(watch), ..self }
    }

    pub(crate) fn for_worker(self, worker: &Worker<'_>) -> Self {
        match worker {
            Worker::Agents { jobs } => Self { side_by_side: *jobs > 1, ..self },
            Worker::Look { client } => self.for_a_session(client),
            Worker::Session { .. } => Self { dispatches: false, ..self },
            Worker::Share(_) => self,
        }
    }

    fn haunted(&self) -> MutexGuard<'_, BTreeMap<StepNumber, Vec<Survivor>>> {
        self.haunted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a check may be running that somebody began who is dead. Behind bubblewrap it died, too.
    fn is_strange(&self, step: StepNumber) -> bool {
        let mut attended = self.attended.lock().unwrap_or_else(PoisonError::into_inner);
        attended.insert(step) && self.ground.level != Isolation::Clean
    }

    fn tag(&self, step: StepNumber, attempt: u32) -> String {
        format!("{}/{step}/{attempt}", self.site.id)
    }

    fn attempt_order(&self, run: &Run, number: StepNumber) -> Order {
        let Some(step) = run.plan.step(number) else { return Order::Nothing };
        if let Some(errand) = self.errand(run, number) {
            return Order::Errand(Box::new(errand));
        }
        let context: Vec<Context> =
            step.subscriptions.iter().map(|subscription| self.context(run, &subscription.value)).collect();
        let prompt = prompt::step(run, number, &context);
        let target = run.role(number).to_owned();
        let config = &self.site.config;
        let role = config.agents.get(&target).and_then(|role| role.timeout);
        let timeout = step.timeout.as_ref().map(|timeout| timeout.value).or(role);
        let timeout = timeout.unwrap_or(config.run.step_timeout);
        // No attempt lasts longer than the budget.
        let left = run.ledger.held(number).and_then(|held| held.wall_ms).map(Duration::from_millis);
        let terms = &run.binding.terms;
        Order::Attempt(Box::new(AttemptOrder {
            step: number,
            attempt: run.step(number).map_or(1, |step| step.attempts),
            reach: self.within_reach(terms.for_step_by(step, &target)),
            api: terms.api.get(&target).cloned().unwrap_or_default(),
            limit: budget::allows(run, number),
            item: self.item(run, number, &target, &prompt, &context),
            target,
            prompt: self.site.redactor.text(&prompt).into_owned(),
            resume: self.resume(run, number),
            publishes: step.publishes.iter().map(|topic| topic.value.clone()).collect(),
            timeout: left.map_or(timeout, |left| timeout.min(left)),
            veiled: veiled(run),
            apart: self.side_by_side && run.works_apart(number),
            place: place(run, step),
            tree: self.tree(run),
            touches: globs(step).unwrap_or_default(),
            home: self.home(run),
            work: self.work(run),
        }))
    }

    /// What the tools of the step's agent are to tell, where its role has such tools.
    fn item(
        &self,
        run: &Run,
        step: StepNumber,
        role: &str,
        prompt: &str,
        context: &[Context],
    ) -> Option<Item> {
        self.site.config.agents.get(role).filter(|role| role.tools)?;
        let clean = |text: &str| self.site.redactor.text(text).into_owned();
        let plan = veiled(run)
            .unwrap_or_else(|| law::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step)));
        let topics = context.iter().filter_map(|context| {
            let name = context.name.strip_prefix("topic:")?.to_owned();
            Some((name, clean(context.content.as_ref().ok()?)))
        });
        Some(Item {
            program: self.site.launcher.first().cloned()?,
            step,
            plan: clean(&plan),
            task: clean(prompt),
            topics: topics.collect(),
        })
    }

    fn resume(&self, run: &Run, number: StepNumber) -> Option<(Session, String)> {
        let session = run.step(number)?.session.clone()?;
        Some((session, self.site.redactor.text(&prompt::resumed(run, number)?).into_owned()))
    }

    fn check_order(&self, run: &Run, subject: Subject, lost: bool) -> Order {
        let plan = &run.plan;
        let (contract, step): (Option<&Contract>, Option<&Step>) = match subject {
            Subject::Precondition(number) => {
                (plan.step(number).and_then(|step| step.precondition.as_ref()), plan.step(number))
            }
            Subject::Contract(number) | Subject::Control(number) | Subject::Final(number) => {
                (plan.step(number).and_then(|step| step.contract.as_ref()), plan.step(number))
            }
            Subject::Postcondition(number) => {
                let found = plan.postconditions.iter().find(|post| post.number == number);
                (found.and_then(|post| post.contract.as_ref()), None)
            }
        };
        let usual = self.site.config.verify.contract_timeout;
        let own = step.and_then(|step| step.contract_timeout.as_ref());
        let network = step.and_then(|step| step.network.as_ref()).is_some_and(|network| network.value);
        let protect = step.into_iter().flat_map(|step| &step.protect).map(|glob| glob.value.clone());
        let left_alone = !self.at_home().1.is_empty();
        let with_work = match subject {
            Subject::Precondition(_) | Subject::Contract(_) => true,
            Subject::Control(_) => false,
            // Whatever somebody else has changed in the workspace takes part in the end, as it always does.
            Subject::Final(_) | Subject::Postcondition(_) => run.has_unseen_work() || left_alone,
        };
        let carried = self.laid_out(run, with_work);
        let unseen = carried.as_ref().and_then(|carried| carried.as_ref().err().cloned());
        let apart = match subject {
            _ if self.courier.is_some() => carried.and_then(Result::ok).flatten(),
            Subject::Contract(number) if run.works_apart(number) => {
                step.and_then(|step| self.ground.apart(&self.site.id.to_string(), &place(run, step)))
            }
            _ => None,
        };
        // First where it was made, then with what others left meanwhile.
        let tree = match &apart {
            Some(apart) if step.is_some_and(|step| !run.is_held_apart(step.number)) => {
                Some(apart.base.clone())
            }
            _ => self.tree(run),
        };
        Order::Check(Box::new(CheckOrder {
            subject,
            check: contract.map(|contract| contract.check.clone()),
            timeout: own.map_or(usual, |timeout| timeout.value),
            attempt: step.and_then(|step| run.step(step.number)).map_or(0, |step| step.attempts),
            lost,
            tree,
            with_work,
            known: matches!(subject, Subject::Final(_) | Subject::Postcondition(_))
                && !network
                && !left_alone
                && contract.is_some_and(|contract| match &contract.check {
                    Check::Shell(shell) => run.held_on_tree(shell),
                    Check::Human | Check::Judge { .. } => false,
                }),
            protect: protect.collect(),
            network,
            runs: step.and_then(|step| step.verify_runs.as_ref()).map_or(1, |runs| runs.value),
            doubts: doubts(run, subject),
            worker: step.map(|step| run.role(step.number).to_owned()).unwrap_or_default(),
            apart,
            touches: step.filter(|_| matches!(subject, Subject::Contract(_))).and_then(globs),
            home: self.home(run),
            unseen,
            limit: step.map(|step| budget::allows(run, step.number)).unwrap_or_default(),
        }))
    }

    /// The contract once more, on a tree that was kept, without the agent's workspace.
    pub fn recheck(&self, run: &Run, number: StepNumber, tree: Option<String>) -> Option<Verdict> {
        let Order::Check(mut order) = self.check_order(run, Subject::Control(number), false) else {
            return None;
        };
        order.tree = tree;
        let shell = match order.check.clone() {
            Some(Check::Shell(shell)) => shell,
            Some(Check::Judge { .. }) => {
                let reason = "a model judged this, and what a model says is not to be repeated";
                return Some(Verdict::not_run(self.ground.level, reason));
            }
            Some(Check::Human) | None => return None,
        };
        self.judge(&order, &shell).ok().map(|verdict| self.redacted(verdict))
    }

    fn context(&self, run: &Run, subscription: &Subscription) -> Context {
        let place = &self.site.place;
        let (name, path) = match subscription {
            Subscription::File(path) => (format!("file:{path}"), place.workspace.join(path)),
            Subscription::Topic(topic) => {
                (format!("topic:{topic}"), place.dir.join("topics").join(format!("{topic}.md")))
            }
        };
        // Where agents work elsewhere, the workspace may not be up to what has passed yet.
        let tree = self.home(run).map(|home| home.tree).or_else(|| self.stands_for_the_workspace(run));
        let passed = tree.and_then(|tree| match subscription {
            Subscription::File(path) => self.ground.file_in(&tree, path),
            Subscription::Topic(_) => None,
        });
        let content = files::beginning(passed.as_deref().unwrap_or(&path), CONTEXT_BYTES);
        let content = content.map_err(|error| error.to_string());
        if let Subscription::Topic(topic) = subscription {
            return Context { name, content: with_posts(run, topic, content) };
        }
        // The plan file, by whatever name: what is hidden in it stays hidden.
        let is_plan =
            path.canonicalize().is_ok_and(|path| place.path.canonicalize().is_ok_and(|own| own == path));
        match veiled(run).filter(|_| is_plan && content.is_ok()) {
            Some(text) => Context { name, content: Ok(text.chars().take(CONTEXT_BYTES).collect()) },
            None => Context { name, content },
        }
    }

    fn attempt(&self, order: &AttemptOrder) -> Vec<Said> {
        let AttemptOrder { step, attempt, timeout, .. } = *order;
        let tag = self.tag(step, attempt);
        let (config, dir) = (&self.site.config, &self.site.place.dir);
        let agent = roster::agent(config, &order.target, &self.site.launcher, dir);
        let opened = agent.and_then(|agent| {
            let home = self.client_home(&*agent, order)?;
            let outbox = self.outbox(order)?;
            self.come_home(order.home.as_ref()).map_err(|error| not_home(&error))?;
            let apart = self.begin_in(order)?;
            let account = self.metering.open(self.site, &order.target, order.limit)?;
            Ok((agent, home, outbox, account, apart))
        });
        let (agent, home, outbox, account, apart) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                return vec![Said::Harness(HarnessCommand::AttemptEnded(Ended::new(
                    step,
                    attempt,
                    AttemptEnd::NotStarted { reason },
                )))];
            }
        };
        let portal = portal::launcher(&self.site.launcher);
        let grant = Grant {
            role: &order.target,
            reach: order.reach,
            api: &order.api,
            launcher: portal.as_slice(),
            meter: account.as_ref().map(Account::address),
        };
        let metered = account.as_ref().map(|account| account.environment(&self.site.environment));
        // Without its folder a client knows nothing of what was said before.
        let resume = order.resume.as_ref().filter(|_| home.as_ref().is_none_or(|(_, kept)| *kept));
        let work = Work {
            prompt: &order.prompt,
            workspace: &self.site.place.workspace,
            step,
            attempt,
            timeout,
            tag: &tag,
            stop: Some(&self.site.stop),
            fence: None,
            environment: metered.as_ref().unwrap_or(&self.site.environment),
            bounds: Some(self.site.config.run.bounds()),
            home: home.as_ref().map(|(home, _)| home.as_path()),
            resume: resume.map(|(session, prompt)| Resume {
                session: &session.id,
                prompt,
                used: &session.used,
            }),
            outbox: outbox.as_ref().map(|folder| Outbox {
                folder,
                topics: &order.publishes,
                item: order.item.as_ref(),
            }),
            heard: None,
        };
        let clean = |text: &str| self.metering.clean(self.site.redactor.text(text).into_owned());
        let live = Live::new(self.ground.state(), &self.site.id, step);
        let veil = order.veiled.as_ref().map(|text| Veil { path: &self.site.place.path, text });
        let done = std::thread::scope(|scope| {
            scope.spawn(|| live.attend(clean));
            let _over = live.until_dropped();
            let heard = |bytes: &[u8]| live.hear(bytes);
            let work = Work { heard: Some(&heard), ..work };
            self.ground.attempt(&*agent, &work, veil, &grant, apart.as_ref())
        });
        let Ok(mut done) = done else {
            return vec![Said::Harness(HarnessCommand::AttemptInterrupted { step, attempt })];
        };
        if let Some(account) = account {
            self.metering.close(account, &mut done);
        }
        self.attended.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
        if !done.survivors.is_empty() {
            self.haunted().insert(step, done.survivors.clone());
        }
        let clean = |text: &str| clean(text.trim());
        let rewrites = done.rewrites.iter().map(|diff| clean(diff)).collect();
        let said = done.said.map(|said| Saying { text: clean(&said.text), ..said });
        let words = match said.as_ref().filter(|said| !said.blocked) {
            Some(said) => format!("{}\n\n{}", said.text, clean(&done.report)).trim_end().to_owned(),
            None => clean(&done.report),
        };
        // It cannot go on, and says so in so many words; where it only failed, the contract has the word.
        let block = said.filter(|said| said.blocked && matches!(done.end, AttemptEnd::Exited { .. }));
        let block = block.map(|said| Said::Agent(AgentCommand::Block { step, reason: said.text }));
        let mut notes: Vec<String> = done.notes.iter().map(|note| clean(note)).collect();
        let Ok((carried, untold)) = self.send_on(order, apart.as_ref()) else {
            return vec![Said::Harness(HarnessCommand::AttemptInterrupted { step, attempt })];
        };
        notes.extend(untold.iter().map(|note| clean(note)));
        let posts = done.published.into_iter();
        let published = posts.map(|post| Post { text: clean(&post.text), ..post }).collect();
        // The last words of an agent that ended well are its claim; of any other, its report.
        let claims = done.end == (AttemptEnd::Exited { exit_code: 0 }) && !words.is_empty();
        let (report, claim) = match claims {
            true => (String::new(), Some(Said::Agent(AgentCommand::Claim { step, evidence: words }))),
            false if words.is_empty() => (clean(&done.stderr.to_string()), None),
            false => (words, None),
        };
        let role = self.site.config.agents.get(&order.target);
        let model = role.and_then(|role| role.model.as_deref());
        let said = Usage { model: done.usage.model.as_deref().map(clean), ..done.usage };
        let usage = prices::priced(&self.site.config.prices, model, said);
        let ended = Said::Harness(HarnessCommand::AttemptEnded(Ended {
            duration_ms: done.duration.as_millis() as u64,
            report,
            notes,
            usage,
            session: done.session,
            published,
            rewrites,
            carried,
            ..Ended::new(step, attempt, done.end)
        }));
        std::iter::once(ended).chain(claim).chain(block).collect()
    }

    /// The folder of the agent's client, where it has one, and whether it is the one of the conversation.
    fn client_home(
        &self,
        agent: &dyn Agent,
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

    /// The same, and what was done to the harness's own files meanwhile.
    fn watched_over(&self, step: StepNumber, work: impl FnOnce() -> Vec<Said>) -> Vec<Said> {
        self.watch.inspect(|watch| watch.enter());
        let mut said = work();
        let found = self.watch.map(Watch::leave).unwrap_or_default();
        let tampered = |what| HarnessCommand::Tampered { step: Some(step), what };
        said.extend(found.into_iter().map(|what| Said::Harness(tampered(what))));
        said
    }

    fn check(&self, order: &CheckOrder) -> Vec<Said> {
        let not_run = |reason: &str| Ok(Verdict::not_run(self.ground.level, reason));
        let verdict = match (self.come_home(order.home.as_ref()), &order.check) {
            (Err(error), _) => not_run(&not_home(&error)),
            (Ok(()), _) if order.unseen.is_some() => not_run(order.unseen.as_deref().unwrap_or_default()),
            (Ok(()), Some(Check::Shell(shell))) => self.judge(order, shell),
            (Ok(()), Some(Check::Human)) => not_run("a person confirms this, no command does"),
            (Ok(()), Some(Check::Judge { rubric })) => self.judge_by_model(order, rubric),
            (Ok(()), None) => not_run("the approved plan has no such check"),
        };
        // A check that was interrupted says nothing; it is due again next time.
        let Ok(verdict) = verdict.and_then(|verdict| self.kept_for_others(order, verdict)) else {
            return Vec::new();
        };
        let verdict = self.redacted(verdict);
        if let (Some(session), false) = (&self.session, order.lost) {
            let person = matches!(order.check, Some(Check::Human));
            if !verdict.held() && !person && !matches!(order.subject, Subject::Control(_)) {
                session.end();
            }
            return vec![Said::Harness(HarnessCommand::Looked {
                subject: order.subject,
                verdict: (!person).then_some(verdict),
                client: session.client.clone(),
            })];
        }
        let max_losses = self.site.config.run.max_lost_attempts;
        vec![Said::Harness(if order.lost {
            HarnessCommand::JudgedLost { step: order.step(), verdict, max_losses }
        } else {
            HarnessCommand::Judged { subject: order.subject, verdict }
        })]
    }

    /// What a command can say comes first; a model is asked only when that held.
    fn judge_by_model(&self, order: &CheckOrder, rubric: &str) -> Result<Verdict, Interrupted> {
        let command = judgement::command(rubric).unwrap_or_else(|| "true".to_owned());
        let shell = Shell { command, body: Span::default(), expectations: Vec::new() };
        let first = self.judge(order, &shell)?;
        if !first.held() {
            return Ok(first);
        }
        let tag = self.tag(order.step(), order.attempt);
        let bench = Bench {
            site: self.site,
            ground: &self.ground,
            metering: &self.metering,
            step: order.step(),
            worker: &order.worker,
            rubric,
            tag: &tag,
            timeout: self.site.config.run.step_timeout,
            limit: order.limit,
        };
        bench.judge(&self.case(order, &shell, &tag))
    }

    fn case<'c>(&'c self, order: &'c CheckOrder, shell: &'c Shell, tag: &'c str) -> Case<'c> {
        Case {
            shell,
            timeout: order.timeout,
            tag,
            stop: Some(&self.site.stop),
            tree: order.tree.as_deref(),
            with_work: order.with_work,
            apart: order.apart.as_ref(),
            touches: order.touches.as_deref(),
            protect: &order.protect,
            network: order.network,
            bounds: Some(self.site.config.run.bounds()),
            doubts: order.doubts,
        }
    }

    fn judge(&self, order: &CheckOrder, shell: &Shell) -> Result<Verdict, Interrupted> {
        if let (true, Some(tree)) = (order.known, &order.tree) {
            return Ok(Verdict::known(self.ground.level, tree));
        }
        let step = order.step();
        // Nothing of an attempt may be alive when it is judged.
        let known = self.haunted().get(&step).cloned();
        if self.is_strange(step) || order.lost || known.is_some() {
            let left = process::end_leftovers(&format!("{}/{step}/", self.site.id));
            let named = known.into_iter().flatten().filter(Survivor::is_alive);
            if let Some(survivor) = left.into_iter().chain(named).next() {
                let reason = format!("{survivor} of the attempt is still running and could not be ended");
                return Ok(Verdict::not_run(self.ground.level, reason));
            }
            self.haunted().remove(&step);
        }
        let tag = self.tag(step, order.attempt);
        let case = self.case(order, shell, &tag);
        let first = self.ground.judge(&case)?;
        for run in 2..=order.runs {
            // A pass has to be a pass each time; a failure needs no second look.
            if !first.held() {
                break;
            }
            let again = self.ground.judge(&Case { doubts: Doubts { bite: false, ..case.doubts }, ..case })?;
            if !again.held() {
                let reason = format!("run {run} of {} disagreed: {}", order.runs, again.outcome);
                return Ok(Verdict { outcome: Outcome::Flaky { reason }, ..again });
            }
        }
        Ok(first)
    }

    fn redacted(&self, verdict: Verdict) -> Verdict {
        let clean = |excerpt: Excerpt| Excerpt {
            head: self.site.redactor.text(&excerpt.head).into_owned(),
            tail: self.site.redactor.text(&excerpt.tail).into_owned(),
            bytes: excerpt.bytes,
        };
        Verdict { stdout: clean(verdict.stdout), stderr: clean(verdict.stderr), ..verdict }
    }
}

/// What people wrote to a topic, and after it what the steps did.
fn with_posts(run: &Run, topic: &str, kept: Result<String, String>) -> Result<String, String> {
    let posts: Vec<String> =
        run.posts(topic).map(|(step, text)| format!("From step {step}:\n\n{text}")).collect();
    match (posts.is_empty(), kept) {
        (true, kept) => kept,
        (false, Ok(kept)) => Ok(format!("{}\n\n{}", kept.trim_end(), posts.join("\n\n"))),
        (false, Err(_)) => Ok(posts.join("\n\n")),
    }
}

/// The plan as agents may see it, if some of it is hidden from them.
fn veiled(run: &Run) -> Option<String> {
    if !run.hides {
        return None;
    }
    let marked = law::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
    prompt::veiled(&marked, &parse::plan(&marked).plan)
}

/// What is known of a check from before the work, and whether it is to be tried with a failing test.
fn doubts(run: &Run, subject: Subject) -> Doubts {
    let Subject::Contract(number) = subject else { return Doubts::default() };
    let before = run
        .step(number)
        .and_then(|step| step.held_before.map(|held| Before { held, tests: step.tests_before }));
    let writes_tests = run.plan.step(number).is_some_and(Step::writes_tests);
    Doubts { before, writes_tests, bite: true }
}

impl World for Hands<'_> {
    type Order = Order;

    fn now(&self) -> Timestamp {
        site::now()
    }

    fn wait(&self, until: Timestamp) {
        if let Some(session) = &self.session {
            return session.end();
        }
        let left = Duration::from_millis(until.0.saturating_sub(site::now().0));
        std::thread::sleep(left.min(EAR));
    }

    fn recipes(&self) -> &Recipes {
        &self.site.config.recipes
    }

    fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        self.site.law_changes(run)
    }

    fn starts_agents(&self) -> bool {
        self.session.is_none()
    }

    fn held_up(&self, run: &Run, step: StepNumber) -> Option<String> {
        let plan = run.carried_by(step).filter(|_| self.session.is_none())?;
        self.carrier?.held_up(plan)
    }

    fn interrupted(&self) -> bool {
        if self.within.is_some_and(|within| within.leash.is_at_its_end()) {
            return true;
        }
        let is_over = self.session.as_ref().is_some_and(|session| session.is_over.load(Ordering::Relaxed));
        is_over || self.site.stop.load(Ordering::Relaxed)
    }

    fn dispatches(&self) -> bool {
        self.dispatches
    }

    fn order(&self, run: &Run, action: Action) -> Order {
        if let Some(session) = &self.session {
            let subject = match action {
                Action::Dispatch { step } => Some(Subject::Contract(step)),
                Action::Judge { subject } => Some(subject),
                // Begun in so many words, and not yet looked at.
                Action::JudgeLost { step, .. } => Some(Subject::Contract(step)),
                // No session's to do.
                Action::TakeUp { .. } => {
                    session.end();
                    return Order::Nothing;
                }
                Action::Hold { .. } | Action::OverBudget { .. } | Action::End => None,
            };
            let carried = |step| run.carried_by(step).is_some();
            match subject {
                Some(Subject::Contract(step)) if carried(step) => {
                    session.end();
                    return Order::Nothing;
                }
                Some(subject) if session.is_new(subject) => return self.check_order(run, subject, false),
                Some(_) => return Order::Nothing,
                None => {}
            }
        }
        match action {
            Action::Dispatch { step } | Action::TakeUp { step, .. } => self.attempt_order(run, step),
            Action::Judge { subject } => self.check_order(run, subject, false),
            Action::JudgeLost { step, .. } => self.check_order(run, Subject::Contract(step), true),
            Action::Hold { .. } | Action::OverBudget { .. } | Action::End => Order::Nothing,
        }
    }

    fn perform(&self, order: Order) -> Vec<Said> {
        match order {
            Order::Attempt(order) => self.watched_over(order.step, || self.attempt(&order)),
            Order::Errand(errand) => {
                let carrier = self.carrier;
                self.watched_over(errand.step, || {
                    carrier.map(|carrier| carrier.carry_out(&errand)).unwrap_or_default()
                })
            }
            Order::Check(order) => self.check(&order),
            Order::Nothing => Vec::new(),
        }
    }
}
