use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use provost_core::redact::Redactor;
use provost_core::text::hook_protocol::HookClient;
use provost_engine::plan::plan_registry::Here;
use serde_json::json;

use crate::clients::install_manifest::{Entry, Ledger};
use crate::clients::set_up_client::SetUpClient;
use crate::clients::{Care, Change, Ground, Wanted, difference};
use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{clients, terminal};

/// Set up agent clients: MCP tools, stop hook, configuration
///
/// Finds installed clients (Claude Code, Codex, Gemini CLI, Qwen Code, GitHub Copilot CLI, opencode, Cursor),
/// shows the exact change to each file, and writes it after you agree. Amp, Goose, VS Code and Zed get only
/// the MCP tools, and only if you name them. Comments, order and all other content stay. Running it again
/// changes nothing; `--undo` restores every file byte for byte, or takes only provost's entries out of one
/// that has changed since. `provost doctor` reports problems.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost init                        all installed clients, for this project
  provost init --agent claude --yes   one client, without a question
  provost init --agent codex --trust  also mark the hook as trusted in Codex
  provost init --user --dry-run       for all projects; only show the changes
  provost init --program provost      files for a team, without a path of this machine
  provost init --undo                 undo everything")]
pub(super) struct Args {
    /// Client to set up; can be repeated [default: all installed clients]
    #[arg(long, value_name = "CLIENT", value_parser = PossibleValuesParser::new(SetUpClient::words()))]
    agent: Vec<String>,
    /// Set up for all your projects instead of this one
    #[arg(long)]
    user: bool,
    /// Undo what `provost init` wrote
    #[arg(long)]
    undo: bool,
    /// Write without asking
    #[arg(long, short)]
    yes: bool,
    /// Show the changes and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Also mark the hook and this project as trusted in Codex, which skips untrusted hooks
    #[arg(long, conflicts_with = "undo")]
    trust: bool,
    /// Add a paragraph about plans to AGENTS.md
    #[arg(long, conflicts_with = "undo")]
    agents_md: bool,
    /// Program to write into the files, by name or path [default: the path of this one]
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let ground = ground(&settings, &args)?;
    let ledger = Ledger::open(&settings.state);
    let chosen = chosen(&args, &ground)?;
    let steps = match args.undo {
        true => taken_back(&ledger, &ground, &args),
        false => put_in(&ledger, &ground, &chosen, args.agents_md),
    };
    show(global, &steps)?;
    warn_of_tracked(&steps, &ground);
    if !args.undo && !args.agents_md && !args.user {
        terminal::talk("`--agents-md` adds a paragraph about plans to AGENTS.md");
    }
    let troubled = steps.iter().any(|step| matches!(step.deed, Deed::Leave(_)));
    let is_nothing = steps.iter().all(|step| matches!(step.deed, Deed::Leave(_) | Deed::Keep));
    if args.dry_run || is_nothing {
        if !args.dry_run {
            carry_out(&steps, &ledger, &ground);
        }
        let wants_trust = !args.dry_run && !args.undo && trust(&ledger, &ground, &chosen, &args)?;
        if is_nothing && !troubled && !wants_trust {
            terminal::talk("nothing to do");
        }
        return Ok(if troubled { Outcome::Refused } else { Outcome::Done });
    }
    if !args.yes && !agreed("Write these changes?")? {
        terminal::talk("nothing was written; --yes writes without asking");
        return Ok(Outcome::Waiting);
    }
    let broken = troubled | !carry_out(&steps, &ledger, &ground);
    for step in &steps {
        if let Deed::Restore { folders, .. } = &step.deed {
            clients::clear(folders);
        }
    }
    if !args.undo {
        trust(&ledger, &ground, &chosen, &args)?;
        terminal::talk("done; check the clients with `provost doctor`");
        terminal::talk(
            "a plan that an agent makes waits for `provost approve`, unless you trusted every check in it (docs/mcp.md)",
        );
    }
    Ok(if broken { Outcome::Refused } else { Outcome::Done })
}

fn ground(settings: &provost_engine::settings::EngineSettings, args: &Args) -> Result<Ground, Failure> {
    let home = settings.environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home);
    let home = home.ok_or_else(|| Failure::usage("HOME is not set", "Set it to your home folder."))?;
    let own = || settings.launcher.first().map(|program| program.to_string_lossy().into_owned());
    Ok(Ground {
        program: args.program.clone().or_else(own).unwrap_or_else(|| "provost".to_owned()),
        workspace: Here::of(&settings.cwd).workspace().to_owned(),
        home: PathBuf::from(home),
        user: args.user,
        environment: settings.environment.clone(),
    })
}

fn chosen(args: &Args, ground: &Ground) -> Result<Vec<SetUpClient>, Failure> {
    if !args.agent.is_empty() {
        return Ok(args.agent.iter().filter_map(|word| SetUpClient::named(word)).collect());
    }
    let found: Vec<SetUpClient> =
        SetUpClient::all().into_iter().filter(|client| ground.has(*client)).collect();
    match found.is_empty() && !args.undo {
        true => Err(Failure::usage(
            "no agent client found: no program on PATH and no configuration folder",
            "Name one: `provost init --agent claude`.",
        )),
        false => Ok(found),
    }
}

/// Writes all files; returns whether every write succeeded.
fn carry_out(steps: &[Step], ledger: &Ledger, ground: &Ground) -> bool {
    let mut is_done = true;
    for step in steps {
        if let Err(trouble) = step.carry_out(ledger, ground.project_root()) {
            terminal::talk(&format!("{}: {trouble}", step.path.display()));
            is_done = false;
        }
    }
    is_done
}

/// Asks the person to trust the hook, for clients that ignore it otherwise. Returns whether there was
/// something to trust.
fn trust(ledger: &Ledger, ground: &Ground, chosen: &[SetUpClient], args: &Args) -> Result<bool, Failure> {
    let wanted = chosen.iter().filter_map(|client| ground.trusted(*client));
    let steps: Vec<Step> = wanted.filter_map(|wanted| step(ledger, ground, wanted, &[])).collect();
    if steps.is_empty() {
        let codex = SetUpClient::Held(HookClient::Codex);
        if args.trust && chosen.contains(&codex) && ground.trusted(codex).is_none() {
            terminal::talk("Codex did not answer, or it does not read this hook; see `provost doctor`");
        }
        return Ok(false);
    }
    for step in &steps {
        match &step.deed {
            Deed::Leave(why) => terminal::talk(&format!("{} stays unchanged: {why}", step.path.display())),
            _ => terminal::talk(&diff(step)),
        }
    }
    if args.trust || !args.yes && agreed("Codex skips the hook until you trust it. Trust it now?")? {
        carry_out(&steps, ledger, ground);
    } else {
        let user = if ground.user { "--user " } else { "" };
        terminal::talk(&format!(
            "Codex skips the hook until you trust it: run `provost init {user}--agent codex --trust`, or start \
             `codex` here and trust the folder and the hook (/hooks)"
        ));
    }
    Ok(true)
}

/// A file and what to do with it.
struct Step {
    path: PathBuf,
    deed: Deed,
}

enum Deed {
    Write(Box<Change>),
    Restore {
        now: Option<String>,
        text: Option<String>,
        folders: Vec<PathBuf>,
    },
    /// The file stays unchanged, for this reason.
    Leave(String),
    /// The file has changed since, and is the person's now.
    Keep,
}

/// Says why a file is kept.
const KEPT: &str = "it has changed since, and nothing in it is only provost's";

impl Step {
    fn texts(&self) -> (Option<&str>, Option<&str>) {
        match &self.deed {
            Deed::Write(change) => (change.now.as_deref(), Some(change.after())),
            Deed::Restore { now, text, .. } => (now.as_deref(), text.as_deref()),
            Deed::Leave(_) | Deed::Keep => (None, None),
        }
    }

    fn word(&self) -> &'static str {
        match (&self.deed, self.texts()) {
            (Deed::Leave(_) | Deed::Keep, _) => "leave",
            (_, (None, _)) => "create",
            (_, (_, None)) => "remove",
            (Deed::Write(_), _) => "change",
            (Deed::Restore { .. }, _) => "restore",
        }
    }

    fn carry_out(&self, ledger: &Ledger, project: Option<&Path>) -> Result<(), clients::Trouble> {
        match &self.deed {
            Deed::Write(change) => change.write(ledger),
            Deed::Restore { text, .. } => {
                clients::restore(&self.path, text.as_deref())?;
                ledger.forget(&self.path, project);
                Ok(())
            }
            Deed::Keep => {
                ledger.forget(&self.path, project);
                Ok(())
            }
            Deed::Leave(_) => Ok(()),
        }
    }
}

fn put_in(ledger: &Ledger, ground: &Ground, chosen: &[SetUpClient], agents_md: bool) -> Vec<Step> {
    let project = ground.project(agents_md).into_iter();
    let mut steps: Vec<Step> = project.filter_map(|wanted| step(ledger, ground, wanted, &[])).collect();
    let mut private = Vec::new();
    for client in chosen {
        let former = ground.former(*client);
        for wanted in ground.wanted(*client) {
            let path = wanted.path.clone();
            let step = step(ledger, ground, wanted, &former);
            if is_private(ledger, ground, &path, step.as_ref()) {
                private.push(path);
            }
            steps.extend(step);
        }
    }
    steps.extend(exclusion(ledger, ground, private));
    steps
}

/// Returns whether a file is made by `init` and names a path of this machine.
fn is_private(ledger: &Ledger, ground: &Ground, path: &Path, step: Option<&Step>) -> bool {
    let known = ledger.find(path, ground.project_root());
    let is_new = known.is_some_and(|entry| entry.is_new_file());
    match step.map(|step| &step.deed) {
        Some(Deed::Write(change)) => {
            (is_new || change.now.is_none()) && change.after().contains(&ground.program)
        }
        _ => is_new && clients::read(path).ok().flatten().is_some_and(|text| text.contains(&ground.program)),
    }
}

/// Keeps files with a path of this machine out of commits: a clone could not use them.
fn exclusion(ledger: &Ledger, ground: &Ground, mut private: Vec<PathBuf>) -> Option<Step> {
    let project = ground.project_root()?;
    if !ground.is_private() {
        private.clear();
    }
    let of_others = ledger.entries().into_iter().filter(|entry| {
        let is_ours = entry.project.as_deref() == Some(project) && entry.path.starts_with(project);
        is_ours && !private.contains(&entry.path) && is_private(ledger, ground, &entry.path, None)
    });
    let others: Vec<PathBuf> = of_others.map(|entry| entry.path).filter(|_| ground.is_private()).collect();
    private.extend(others);
    private.sort();
    let tracked = ground.tracked(&private);
    private.retain(|file| !tracked.contains(file));
    let wanted = ground.exclusion(&private)?;
    let is_needed = !private.is_empty() || ledger.find(&wanted.path, Some(project)).is_some();
    step(ledger, ground, wanted, &[]).filter(|_| is_needed)
}

/// Names the files that a team shares and that get a path of this machine.
fn warn_of_tracked(steps: &[Step], ground: &Ground) {
    let written = steps.iter().filter_map(|step| match &step.deed {
        Deed::Write(change) if change.after().contains(&ground.program) => Some(step.path.clone()),
        _ => None,
    });
    let written: Vec<PathBuf> = written.filter(|_| ground.is_private()).collect();
    let tracked: Vec<String> =
        ground.tracked(&written).iter().map(|file| file.display().to_string()).collect();
    if !tracked.is_empty() {
        terminal::talk(&format!(
            "git tracks {}: do not commit the path of this machine; `provost init --program provost` writes files \
             for a team",
            tracked.join(", ")
        ));
    }
}

fn step(ledger: &Ledger, ground: &Ground, wanted: Wanted, former: &[Wanted]) -> Option<Step> {
    let deed = match wanted.change(ledger, ground.project_root(), former) {
        Ok(None) => return None,
        Ok(Some(change)) => Deed::Write(Box::new(change)),
        Err(trouble) => Deed::Leave(trouble.to_string()),
    };
    Some(Step { path: wanted.path, deed })
}

fn taken_back(ledger: &Ledger, ground: &Ground, args: &Args) -> Vec<Step> {
    let project = ground.project_root();
    let named: Vec<PathBuf> = args
        .agent
        .iter()
        .filter_map(|word| SetUpClient::named(word))
        .flat_map(|client| {
            ground.wanted(client).into_iter().map(|wanted| wanted.path).chain(ground.trusts_in(client))
        })
        .collect();
    let is_meant = |entry: &Entry| {
        entry.project.as_deref() == project && (args.agent.is_empty() || named.contains(&entry.path))
    };
    ledger.entries().into_iter().filter(is_meant).map(|entry| take_back(&entry)).collect()
}

fn take_back(entry: &Entry) -> Step {
    let deed = match clients::read(&entry.path) {
        Err(trouble) => Deed::Leave(trouble.to_string()),
        Ok(now) => match entry.without(now.as_deref(), Care::Any) {
            Some(without) if without.text == now && now.is_some() => Deed::Keep,
            Some(without) => Deed::Restore { now, text: without.text, folders: entry.folders.clone() },
            None => Deed::Leave(format!("the file has changed since; remove this by hand:{}", entry.added())),
        },
    };
    Step { path: entry.path.clone(), deed }
}

/// Returns the diff without secrets: lines around ours may contain a key.
fn diff(step: &Step) -> String {
    let redactor = Redactor::new(std::iter::empty::<(&str, &str)>());
    let (before, after) = step.texts();
    let diff = difference::unified(&step.path.to_string_lossy(), before, after);
    redactor.text(&diff).into_owned()
}

fn show(global: &Global, steps: &[Step]) -> Result<(), Failure> {
    if global.json {
        let changes: Vec<_> = steps
            .iter()
            .map(|step| match &step.deed {
                Deed::Leave(why) => json!({ "path": step.path, "action": "leave", "why": why }),
                Deed::Keep => json!({ "path": step.path, "action": "leave", "why": KEPT }),
                _ => json!({ "path": step.path, "action": step.word(), "diff": diff(step) }),
            })
            .collect();
        return terminal::print(&format!("{}\n", json!({ "changes": changes })));
    }
    for step in steps {
        match &step.deed {
            Deed::Leave(why) => terminal::talk(&format!("{} stays unchanged: {why}", step.path.display())),
            Deed::Keep => terminal::talk(&format!("{} stays: {KEPT}", step.path.display())),
            _ => terminal::print(&diff(step))?,
        }
    }
    Ok(())
}

/// Asks the person; without a terminal the answer is no.
fn agreed(question: &str) -> Result<bool, Failure> {
    if !terminal::is_interactive() || !std::io::stdout().is_terminal() {
        return Ok(false);
    }
    let _ = write!(std::io::stderr().lock(), "{question} (yes · no) > ");
    let mut said = String::new();
    let read = std::io::stdin().lock().read_line(&mut said);
    read.map_err(|source| Failure::Io { what: "read your answer".to_owned(), source })?;
    Ok(matches!(said.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
