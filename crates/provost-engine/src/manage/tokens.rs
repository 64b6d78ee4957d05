//! Tokens of the server: who may connect, for what, and under which name.
//!
//! A token is a secret that only its owner has. The state folder, which no agent in a sandbox can read, keeps
//! its digest. A browser session is a token in a cookie; a link is a short-lived token that is exchanged once
//! for a session.
//!
//! **Invariant:** no token secret is on disk.
//! **Invariant:** a link is exchanged once, even by concurrent requests.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use provost_host::files;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::plan::plan_context;

/// Prefix of a token, so that people and redactors recognise it.
const PREFIX: &str = "pvt_";
const LINK_LASTS: Duration = Duration::from_secs(15 * 60);
const SESSION_LASTS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Shortest time between two records of a use.
const USE_RECORDED: Duration = Duration::from_secs(60);
/// Most characters of the name of a browser.
const BROWSER_CHARS: usize = 200;

/// Permissions of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenScope {
    /// Reads everything, changes nothing.
    View,
    /// For a person: reads and decides.
    Decide,
    /// For a person: the same, and sees and ends the sessions and tokens of all people.
    Admin,
    /// For an agent: uses MCP, and nothing else.
    Agent,
}

impl TokenScope {
    pub fn word(self) -> &'static str {
        match self {
            TokenScope::View => "view",
            TokenScope::Decide => "decide",
            TokenScope::Admin => "admin",
            TokenScope::Agent => "agent",
        }
    }

    pub fn may_view(self) -> bool {
        matches!(self, TokenScope::View | TokenScope::Decide | TokenScope::Admin)
    }

    pub fn may_decide(self) -> bool {
        matches!(self, TokenScope::Decide | TokenScope::Admin)
    }

    /// Returns whether it sees and ends what other people have.
    pub fn may_administer(self) -> bool {
        self == TokenScope::Admin
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Sent by a program with every request.
    Token,
    /// Exchanged once for a session.
    Link,
    /// In the cookie of a browser.
    Session,
}

/// What a new token, link or session allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    pub scope: TokenScope,
    /// Name that its decisions have in the log.
    pub name: String,
    /// The only repositories whose plans exist for it, by [`repository_key`](crate::plan::plan_registry::repository_key);
    /// all if empty.
    pub repositories: Vec<PathBuf>,
}

impl TokenKind {
    pub fn word(self) -> &'static str {
        match self {
            TokenKind::Token => "token",
            TokenKind::Link => "link",
            TokenKind::Session => "session",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: String,
    pub kind: TokenKind,
    pub scope: TokenScope,
    /// Name that its decisions have in the log.
    pub name: String,
    pub made: Timestamp,
    /// Expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The only repositories whose plans exist for it; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<PathBuf>,
    /// The browser of a session, as it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    /// Time of the last use, to the minute; kept in a file of its own.
    #[serde(skip)]
    pub used: Option<Timestamp>,
    digest: String,
}

impl Token {
    fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// A new token with its secret, which is shown once.
pub struct NewToken {
    pub token: Token,
    pub word: String,
}

/// The tokens of one state folder.
#[derive(Clone, Debug)]
pub struct Tokens {
    folder: PathBuf,
}

impl Tokens {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("serve/tokens") }
    }

    pub fn make(&self, grant: &TokenGrant, lasts: Option<Duration>) -> Result<NewToken, Error> {
        self.write(TokenKind::Token, grant, lasts, None)
    }

    pub fn link(&self, grant: &TokenGrant) -> Result<NewToken, Error> {
        self.sweep();
        self.write(TokenKind::Link, grant, Some(LINK_LASTS), None)
    }

    /// Exchanges a link for a session of this browser; `None` if it was used, has expired, or is no link.
    pub fn exchange(&self, word: &str, browser: Option<&str>) -> Result<Option<NewToken>, Error> {
        let Some(link) = self.find(word).filter(|token| token.kind == TokenKind::Link) else {
            return Ok(None);
        };
        // The process that removes the file wins.
        if fs::remove_file(self.file(&link.id)).is_err() {
            return Ok(None);
        }
        let grant = TokenGrant { scope: link.scope, name: link.name, repositories: link.repositories };
        self.write(TokenKind::Session, &grant, Some(SESSION_LASTS), browser).map(Some)
    }

    /// Makes a session for a person who signed in elsewhere.
    pub fn session(
        &self,
        grant: &TokenGrant,
        lasts: Duration,
        browser: Option<&str>,
    ) -> Result<NewToken, Error> {
        self.sweep();
        self.write(TokenKind::Session, grant, Some(lasts), browser)
    }

    /// Returns the valid token with this secret.
    pub fn find(&self, word: &str) -> Option<Token> {
        let (id, _) = word.strip_prefix(PREFIX)?.split_once('_')?;
        let token = self.read(id)?;
        // Digests are compared, so that the comparison time reveals nothing about the secret.
        let is_it = token.digest == Hash::of(word.as_bytes()).to_string();
        (is_it && !token.is_over(plan_context::now())).then_some(token)
    }

    /// Returns the valid tokens, oldest first.
    pub fn all(&self) -> Vec<Token> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ids =
            files.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()));
        let now = plan_context::now();
        let with_use = |token: Token| Token { used: self.last_use(&token.id), ..token };
        let valid = ids.filter_map(|id| self.read(&id)).filter(|token| !token.is_over(now));
        let mut all: Vec<Token> = valid.map(with_use).collect();
        all.sort_by(|a, b| (a.made, &a.id).cmp(&(b.made, &b.id)));
        all
    }

    /// Deletes a token; returns whether it existed.
    pub fn revoke(&self, id: &str) -> bool {
        is_id(id) && {
            let _ = fs::remove_file(self.use_file(id));
            fs::remove_file(self.file(id)).is_ok()
        }
    }

    /// Records that a token is used now. An error is ignored: only a list shows the time.
    pub fn record_use(&self, token: &Token) {
        let is_recent = self.last_use(&token.id).is_some_and(|used| {
            plan_context::now().0.saturating_sub(used.0) < USE_RECORDED.as_millis() as u64
        });
        if !is_recent {
            let _ = files::write_whole(&self.use_file(&token.id), b"");
        }
    }

    /// Returns the time of the last use: when its file was written.
    fn last_use(&self, id: &str) -> Option<Timestamp> {
        let written = fs::metadata(self.use_file(id)).ok()?.modified().ok()?;
        let since = written.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Timestamp(since.as_millis() as u64))
    }

    fn write(
        &self,
        kind: TokenKind,
        grant: &TokenGrant,
        lasts: Option<Duration>,
        browser: Option<&str>,
    ) -> Result<NewToken, Error> {
        let io = |source| Error::Io { what: "write a token in", path: self.folder.clone(), source };
        files::make_private_folder(&self.folder).map_err(io)?;
        let id = random(6).map_err(io)?;
        let word = format!("{PREFIX}{id}_{}", random(32).map_err(io)?);
        let made = plan_context::now();
        let until = lasts.map(|lasts| Timestamp(made.0.saturating_add(lasts.as_millis() as u64)));
        let digest = Hash::of(word.as_bytes()).to_string();
        let browser = browser.map(|browser| browser.chars().take(BROWSER_CHARS).collect());
        let TokenGrant { scope, name, repositories } = grant.clone();
        let token = Token { id, kind, scope, name, made, until, repositories, browser, used: None, digest };
        let text = serde_json::to_vec(&token).map_err(|error| io(error.into()))?;
        files::write_whole(&self.file(&token.id), &text).map_err(io)?;
        Ok(NewToken { token, word })
    }

    fn read(&self, id: &str) -> Option<Token> {
        if !is_id(id) {
            return None;
        }
        serde_json::from_slice(&fs::read(self.file(id)).ok()?).ok()
    }

    fn file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn use_file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.used"))
    }

    fn sweep(&self) {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ids =
            files.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()));
        let now = plan_context::now();
        for token in ids.filter_map(|id| self.read(&id)).filter(|token| token.is_over(now)) {
            self.revoke(&token.id);
        }
    }
}

/// Returns whether the text has the form of an id; only such file names are read.
fn is_id(id: &str) -> bool {
    id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn random(bytes: usize) -> std::io::Result<String> {
    let mut random = vec![0; bytes];
    fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (tempfile::TempDir, Tokens) {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens::new(folder.path());
        (folder, tokens)
    }

    fn grant(scope: TokenScope) -> TokenGrant {
        TokenGrant { scope, name: "ada".to_owned(), repositories: vec![PathBuf::from("/a")] }
    }

    #[test]
    fn a_token_is_known_by_its_word_and_its_word_is_nowhere() {
        let (folder, tokens) = fresh();
        let made = tokens.make(&grant(TokenScope::View), None).expect("made");
        assert_eq!(tokens.find(&made.word), Some(made.token.clone()));
        assert_eq!(tokens.find(&format!("{}0", made.word)), None);
        assert_eq!(tokens.find("pvt_../../x_y"), None);
        let text = fs::read_to_string(folder.path().join(format!("serve/tokens/{}.json", made.token.id)));
        let secret = made.word.rsplit('_').next().expect("a part").to_owned();
        assert!(!text.expect("a file").contains(&secret));
        assert!(tokens.revoke(&made.token.id) && tokens.find(&made.word).is_none());
    }

    #[test]
    fn a_link_is_exchanged_once() {
        let (_folder, tokens) = fresh();
        let link = tokens.link(&grant(TokenScope::Decide)).expect("made");
        let sessions: Vec<NewToken> = std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..8).map(|_| scope.spawn(|| tokens.exchange(&link.word, Some("Firefox")))).collect();
            all.into_iter().filter_map(|one| one.join().expect("no panic").expect("no error")).collect()
        });
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions[0].token.kind, TokenKind::Session);
        assert_eq!(sessions[0].token.repositories, [PathBuf::from("/a")]);
        assert_eq!(sessions[0].token.browser.as_deref(), Some("Firefox"));
        assert!(tokens.find(&sessions[0].word).is_some_and(|token| token.scope == TokenScope::Decide));
        // Neither a token nor a session is a link.
        assert!(tokens.exchange(&sessions[0].word, None).expect("asked").is_none());
    }

    #[test]
    fn the_last_use_is_in_the_list_and_goes_with_the_token() {
        let (folder, tokens) = fresh();
        let made = tokens.make(&grant(TokenScope::View), None).expect("made");
        assert_eq!(tokens.all()[0].used, None);
        tokens.record_use(&made.token);
        assert!(tokens.all()[0].used.is_some_and(|used| used.0 + 1000 >= made.token.made.0));
        assert!(tokens.revoke(&made.token.id));
        assert_eq!(fs::read_dir(folder.path().join("serve/tokens")).expect("a folder").count(), 0);
    }

    #[test]
    fn what_is_over_is_not_good() {
        let (_folder, tokens) = fresh();
        let made = tokens.make(&grant(TokenScope::View), Some(Duration::ZERO)).expect("made");
        assert_eq!(tokens.find(&made.word), None);
        assert_eq!(tokens.all(), []);
    }
}
