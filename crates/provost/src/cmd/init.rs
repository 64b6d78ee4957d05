use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use provost_core::redact::Redactor;
use provost_core::text::hook_protocol::HookClient;
use provost_engine::plan::plan_registry::Here;
use serde_json::json;

use crate::clients::install_manifest::{Entry, Ledger};
use crate::clients::{Change, Ground, difference};
use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{clients, terminal};

/// Set up agent clients: MCP tools, stop hook, configuration
///
/// Finds installed clients (Claude Code, Codex, Gemini CLI, opencode, Cursor), shows the exact change to
/// each file, and writes it after you agree. Comments, order and all other content stay. Running it again
/// changes nothing; `--undo` restores every file byte for byte. `provost doctor` reports problems.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost init                        all installed clients, for this project
  provost init --agent claude --yes   one client, without a question
  provost init --agent codex --trust  also mark the hook as trusted in Codex
  provost init --user --dry-run       for all projects; only show the changes
  provost init --undo                 undo everything")]
pub(super) struct Args {
    /// Client to set up; can be repeated [default: all installed clients]
    #[arg(long, value_name = "CLIENT", value_parser = PossibleValuesParser::new(HookClient::ALL.map(HookClient::word)))]
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
    /// Path of provost to write into the files [default: its absolute path]
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
    if !args.undo && !args.agents_md && !args.user {
        terminal::talk("`--agents-md` adds a paragraph about plans to AGENTS.md");
    }
    let troubled = steps.iter().any(|step| matches!(step.deed, Deed::Leave(_)));
    let is_nothing = steps.iter().all(|step| matches!(step.deed, Deed::Leave(_)));
    if args.dry_run || is_nothing {
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

fn chosen(args: &Args, ground: &Ground) -> Result<Vec<HookClient>, Failure> {
    if !args.agent.is_empty() {
        return Ok(args.agent.iter().filter_map(|word| HookClient::named(word)).collect());
    }
    let found: Vec<HookClient> = HookClient::ALL.into_iter().filter(|client| ground.has(*client)).collect();
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
fn trust(ledger: &Ledger, ground: &Ground, chosen: &[HookClient], args: &Args) -> Result<bool, Failure> {
    let wanted = chosen.iter().filter_map(|client| ground.trusted(*client));
    let steps: Vec<Step> = wanted.filter_map(|wanted| step(ledger, ground, wanted)).collect();
    if steps.is_empty() {
        if args.trust && chosen.contains(&HookClient::Codex) && ground.trusted(HookClient::Codex).is_none() {
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
}

impl Step {
    fn texts(&self) -> (Option<&str>, Option<&str>) {
        match &self.deed {
            Deed::Write(change) => (change.now.as_deref(), Some(&change.after)),
            Deed::Restore { now, text, .. } => (now.as_deref(), text.as_deref()),
            Deed::Leave(_) => (None, None),
        }
    }

    fn word(&self) -> &'static str {
        match (&self.deed, self.texts()) {
            (Deed::Leave(_), _) => "leave",
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
            Deed::Leave(_) => Ok(()),
        }
    }
}

fn put_in(ledger: &Ledger, ground: &Ground, chosen: &[HookClient], agents_md: bool) -> Vec<Step> {
    let of_clients = chosen.iter().flat_map(|client| ground.wanted(*client));
    let all = ground.project(agents_md).into_iter().chain(of_clients);
    all.filter_map(|wanted| step(ledger, ground, wanted)).collect()
}

fn step(ledger: &Ledger, ground: &Ground, wanted: clients::Wanted) -> Option<Step> {
    let deed = match wanted.change(ledger, ground.project_root()) {
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
        .filter_map(|word| HookClient::named(word))
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
        Ok(now) => match entry.without(now.as_deref()) {
            Some(without)
                if without.is_exact || still_sound(&entry.path, now.as_deref(), without.text.as_deref()) =>
            {
                Deed::Restore { now, text: without.text, folders: entry.folders.clone() }
            }
            _ => Deed::Leave(format!("the file has changed since; remove this by hand:{}", entry.added())),
        },
    };
    Step { path: entry.path.clone(), deed }
}

/// Returns whether a JSON file is still valid JSON afterwards.
fn still_sound(path: &Path, now: Option<&str>, text: Option<&str>) -> bool {
    let is_json = path.extension().is_some_and(|extension| extension == "json" || extension == "jsonc");
    let reads = |text: Option<&str>| text.is_none_or(|text| clients::jsonc::value(text).is_ok());
    !is_json || reads(text) || !reads(now)
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
                _ => json!({ "path": step.path, "action": step.word(), "diff": diff(step) }),
            })
            .collect();
        return terminal::print(&format!("{}\n", json!({ "changes": changes })));
    }
    for step in steps {
        match &step.deed {
            Deed::Leave(why) => terminal::talk(&format!("{} stays unchanged: {why}", step.path.display())),
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
