use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use provost_engine::manage::sign_in::{self, SignInError};
use provost_engine::manage::tokens::{TokenGrant, TokenScope, Tokens};
use provost_engine::observe::overview::{self, Overview};
use provost_engine::plan::human_check::Who;
use provost_engine::plan::plan_context;
use provost_engine::plan::plan_registry::{repository_key, repository_name};
use provost_engine::settings::EngineSettings;
use provost_server::http::{self, Beside, ClusterTables, OfferedSignIn, ServeOptions, ServerAddress};
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Serve the page, the API and MCP over HTTP, for the plans of this state folder
///
/// Prints a link that works once. The person who opens it gets a session to look and decide under your
/// name. Listens on this machine only, unless you set up TLS or a proxy. Programs authenticate with a token.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  provost serve                             print the link and serve until interrupted
  provost serve --open                      and open it in your browser
  provost serve link                        another link, while the server runs
  provost serve link --repository .         one that shows only the plans of this repository
  provost serve token --scope view          a token for a program that reads
  provost serve token --scope agent         a token for an agent's client, at /mcp
  provost serve tokens                      valid tokens; `provost serve revoke ID` revokes one
  provost serve trust                       use the identity provider of [serve.oidc]"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4180")]
    listen: SocketAddr,
    /// Open the link in your browser
    #[arg(long)]
    open: bool,
    /// Certificate chain for TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key for TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Host name of a TLS proxy in front of the server; can be repeated
    #[arg(long, value_name = "HOST", conflicts_with = "tls_cert")]
    behind_proxy: Vec<String>,
    /// Name for the session of the link [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// MCP tools answer after at most this time, even if a check still runs; a number is in seconds
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = super::patience)]
    patience: Duration,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Print another link to the server that runs
    #[command(after_help = "Examples:\n  provost serve link --scope view")]
    Link {
        /// Permission of the session
        #[arg(long, value_enum, default_value = "decide")]
        scope: LinkScope,
        /// Name for the session [default: your user name]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Show only the plans of the repository in this folder; can be repeated
        #[arg(long, value_name = "FOLDER")]
        repository: Vec<PathBuf>,
    },
    /// Make a token for a program and print it once
    #[command(after_help = "Examples:\n  provost serve token --scope view --name dashboard --expires 30days")]
    Token {
        /// Permission of the token
        #[arg(long, value_enum)]
        scope: ScopeArg,
        /// Name to record for its decisions [default: your user name]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Lifetime, such as 12h or 30days [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        expires: Option<Duration>,
        /// Show only the plans of the repository in this folder; can be repeated
        #[arg(long, value_name = "FOLDER")]
        repository: Vec<PathBuf>,
    },
    /// List valid links, sessions and tokens
    #[command(after_help = "Examples:\n  provost serve tokens --json")]
    Tokens,
    /// Revoke a link, a session or a token
    #[command(after_help = "Examples:\n  provost serve revoke 4c1d")]
    Revoke {
        /// Id from `provost serve tokens`
        id: String,
    },
    /// Trust the identity provider under [serve.oidc] in provost.toml
    ///
    /// Agents that worked without the level `clean` can have written it. Read it first.
    #[command(after_help = "Examples:\n  provost serve trust")]
    Trust,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum LinkScope {
    /// Read everything, change nothing
    View,
    /// Read and decide
    Decide,
    /// The same, and end the sessions and tokens of other people
    Admin,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ScopeArg {
    /// Read everything, change nothing
    View,
    /// Read, and decide in a person's name
    Decide,
    /// The same, and end the sessions and tokens of other people
    Admin,
    /// Use MCP, and nothing else
    Agent,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    match args.what {
        None => serve(global, args),
        Some(What::Link { scope, by, repository }) => link(global, scope.into(), by, &repository),
        Some(What::Token { scope, name, expires, repository }) => {
            token(global, scope.into(), name, expires, &repository)
        }
        Some(What::Tokens) => tokens(global),
        Some(What::Revoke { id }) => revoke(global, &id),
        Some(What::Trust) => trust(global),
    }
}

fn serve(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    provost_engine::journal::log_locator::answer_soon();
    Overview::open(settings.clone())?.only_people(&Who::Here)?;
    let options = ServeOptions {
        listen: args.listen,
        tls: args.tls_cert.zip(args.tls_key),
        behind_proxy: args.behind_proxy,
        by: args.by.unwrap_or_else(terminal::user),
        patience: args.patience,
        beside: numbers_of_the_cluster(&settings),
        cluster: tables_of_the_cluster(&settings),
    };
    let mut told = Ok(());
    http::serve(settings, &options, |ready| told = tell(global, ready, args.open))?;
    told?;
    Ok(Outcome::Done)
}

/// Returns the metrics of the cluster, if the log is shared.
#[cfg(feature = "cluster")]
fn numbers_of_the_cluster(settings: &EngineSettings) -> Option<Arc<Beside>> {
    use provost_dbos::metrics::ClusterMetric as Known;
    use provost_server::http::Family;

    let desk = provost_dbos::status::ClusterView::open(settings).ok()?;
    let told = |Known { name, kind, help, samples }| Family { name, kind, help, samples };
    Some(Arc::new(move || desk.gauges().into_iter().map(told).collect()))
}

/// Returns the tables of the cluster page, if the log is shared.
#[cfg(feature = "cluster")]
fn tables_of_the_cluster(settings: &EngineSettings) -> Option<Arc<ClusterTables>> {
    let desk = provost_dbos::status::ClusterView::open(settings).ok()?;
    Some(Arc::new(move || {
        let status = desk.status().map_err(|error| error.to_string())?;
        Ok(crate::cluster_rows::tables(&status, &desk.gauges()))
    }))
}

#[cfg(not(feature = "cluster"))]
fn tables_of_the_cluster(_settings: &EngineSettings) -> Option<Arc<ClusterTables>> {
    None
}

#[cfg(not(feature = "cluster"))]
fn numbers_of_the_cluster(_settings: &EngineSettings) -> Option<Arc<Beside>> {
    None
}

fn tell(global: &Global, ready: &ServerAddress, open: bool) -> Result<(), Failure> {
    let ServerAddress { address, link, sign_in } = ready;
    if global.json {
        terminal::print(&format!("{}\n", json!({ "address": address.to_string(), "link": link })))?;
    } else {
        terminal::talk(&format!("serving on {address}; this link works once, within 15 minutes:"));
        terminal::print(&format!("{link}\n"))?;
        terminal::talk("`provost serve link` prints another; Ctrl-C stops the server");
    }
    match sign_in.clone() {
        OfferedSignIn::Off => {}
        OfferedSignIn::Untrusted => terminal::talk(
            "only links work: agents can have written [serve.oidc]; read it, run `provost serve trust`, and start \
             the server again",
        ),
        // A provider that does not answer must not delay the server.
        OfferedSignIn::On(oidc) => {
            std::thread::spawn(move || match oidc.probe(plan_context::now()) {
                Ok(words) | Err(words) => terminal::talk(&words),
            });
        }
    }
    if open {
        open_in_browser(link);
    }
    Ok(())
}

/// Opens the link; without a browser, the person uses the printed one.
fn open_in_browser(link: &str) {
    let programs = if cfg!(target_os = "macos") { ["open"].as_slice() } else { &["xdg-open", "gio"] };
    for program in programs {
        let mut command = Command::new(program);
        if *program == "gio" {
            command.arg("open");
        }
        command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            std::thread::spawn(move || child.wait());
            return;
        }
    }
    terminal::talk("no browser found; open the link yourself");
}

/// Returns the tokens if the caller is a person; only people may give access to others.
fn of_a_person(global: &Global) -> Result<Tokens, Failure> {
    let overview = Overview::open(global.settings(None)?)?;
    overview.only_people(&Who::Here)?;
    Ok(Tokens::new(overview.state()))
}

impl From<LinkScope> for TokenScope {
    fn from(scope: LinkScope) -> Self {
        match scope {
            LinkScope::View => TokenScope::View,
            LinkScope::Decide => TokenScope::Decide,
            LinkScope::Admin => TokenScope::Admin,
        }
    }
}

impl From<ScopeArg> for TokenScope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::View => TokenScope::View,
            ScopeArg::Decide => TokenScope::Decide,
            ScopeArg::Admin => TokenScope::Admin,
            ScopeArg::Agent => TokenScope::Agent,
        }
    }
}

fn grant(scope: TokenScope, name: Option<String>, folders: &[PathBuf]) -> Result<TokenGrant, Failure> {
    if scope == TokenScope::Admin && !folders.is_empty() {
        return Err(Failure::usage(
            "an admin sees all repositories",
            "Leave out `--repository`, or use `--scope decide`.",
        ));
    }
    if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
        let hint = "`--repository` takes a folder of a repository on this machine.";
        return Err(Failure::usage(format!("there is no folder {}", folder.display()), hint));
    }
    let repositories = folders.iter().map(|folder| repository_key(folder)).collect();
    Ok(TokenGrant { scope, name: name.unwrap_or_else(terminal::user), repositories })
}

fn link(global: &Global, scope: TokenScope, by: Option<String>, folders: &[PathBuf]) -> Answer {
    let grant = grant(scope, by, folders)?;
    let tokens = of_a_person(global)?;
    let state = global.settings(None)?.state;
    let Some(place) = overview::link_to_running(&state) else {
        return Err(Failure::usage(
            "no server runs for this state folder",
            "Start one with `provost serve`.",
        ));
    };
    let link = format!("{place}{}", tokens.link(&grant)?.word);
    if global.json {
        terminal::print(&format!("{}\n", json!({ "link": link })))?;
    } else {
        terminal::print(&format!("{link}\n"))?;
    }
    Ok(Outcome::Done)
}

fn token(
    global: &Global,
    scope: TokenScope,
    name: Option<String>,
    expires: Option<Duration>,
    folders: &[PathBuf],
) -> Answer {
    let grant = grant(scope, name, folders)?;
    let tokens = of_a_person(global)?;
    let made = tokens.make(&grant, expires)?;
    if global.json {
        let token = json!({
            "id": made.token.id, "scope": made.token.scope, "name": made.token.name,
            "until": made.token.until, "token": made.word,
        });
        terminal::print(&format!("{token}\n"))?;
    } else {
        terminal::talk("the token is shown once; send it as `Authorization: Bearer TOKEN`:");
        terminal::print(&format!("{}\n", made.word))?;
    }
    Ok(Outcome::Done)
}

fn tokens(global: &Global) -> Answer {
    let all = Tokens::new(&global.settings(None)?.state).all();
    if global.json {
        let all: Vec<_> = all
            .iter()
            .map(|token| {
                json!({
                    "id": token.id, "kind": token.kind, "scope": token.scope, "name": token.name,
                    "made": token.made, "until": token.until, "used": token.used, "browser": token.browser,
                    "repositories": token.repositories.iter().map(|key| repository_name(key)).collect::<Vec<_>>(),
                })
            })
            .collect();
        terminal::print(&format!("{}\n", json!(all)))?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        terminal::talk("there are no valid links, sessions or tokens");
    }
    for token in all {
        let until = token.until.map_or("until it is revoked".to_owned(), |until| format!("until {until}"));
        let names: Vec<_> = token.repositories.iter().map(|key| repository_name(key)).collect();
        let only = if names.is_empty() { String::new() } else { format!(" · only {}", names.join(", ")) };
        let used = token.used.map_or("never used".to_owned(), |used| format!("last used {used}"));
        terminal::print(&format!(
            "{}  {} · may {} · {} · {until} · {used}{only}\n",
            token.id,
            token.kind.word(),
            token.scope.word(),
            token.name
        ))?;
    }
    Ok(Outcome::Done)
}

fn revoke(global: &Global, id: &str) -> Answer {
    if !of_a_person(global)?.revoke(id) {
        let hint = "`provost serve tokens` lists the valid ones.";
        return Err(Failure::usage(format!("there is no token `{id}`"), hint));
    }
    terminal::talk("revoked");
    Ok(Outcome::Done)
}

fn trust(global: &Global) -> Answer {
    let overview = Overview::open(global.settings(None)?)?;
    overview.only_people(&Who::Here)?;
    match sign_in::trust(&overview) {
        Ok(()) => terminal::talk("provost uses [serve.oidc] as it is now; if it changes, trust it again"),
        Err(SignInError::Engine(error)) => return Err(error.into()),
        Err(error) => {
            return Err(Failure::usage(
                error.to_string(),
                "Add a [serve.oidc] section first; see docs/sign-in.md.",
            ));
        }
    }
    Ok(Outcome::Done)
}
