//! The address of a git remote, and what of provost's own environment git gets to reach it.
//!
//! git reads no configuration of the user, because agents may be able to write it. The usual variables take its
//! place: proxies, the certificates of a private authority, a client certificate, an ssh command.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provost_core::redact::Redactor;

use crate::tree::mirror::Limit;

/// Token for a remote over `https`.
const TOKEN: &str = "PROVOST_REMOTE_TOKEN";
/// Longest time of one command that contacts a remote, such as `30m`.
const LIMIT: &str = "PROVOST_REMOTE_LIMIT";
const USUAL_LIMIT: Duration = Duration::from_secs(600);
/// Time that the trees of a plan at rest stay on the remote, such as `7days`.
const KEEP: &str = "PROVOST_REMOTE_KEEP";
const USUAL_KEEP: Duration = Duration::from_secs(30 * 24 * 3600);
const SSH_COMMAND: &str = "GIT_SSH_COMMAND";
const CLIENT_KEY: &str = "GIT_SSL_KEY";
/// Variables that open a remote besides the token; no agent gets them on a machine with a remote.
const KEYS: [&str; 4] = ["SSH_AUTH_SOCK", SSH_COMMAND, "GIT_SSL_CERT", CLIENT_KEY];
/// Variables that lead to a remote.
const WAYS: [&str; 10] = [
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    CLIENT_KEY,
];
/// Names for certificates that other programs use, and git's own ones.
const CERTIFICATES: [(&str, &str); 2] =
    [("SSL_CERT_FILE", "GIT_SSL_CAINFO"), ("SSL_CERT_DIR", "GIT_SSL_CAPATH")];

const SSH: &str = "ssh";
/// No prompts, and no waiting for a host that does not answer.
const SSH_OPTIONS: &str =
    "-oBatchMode=yes -oConnectTimeout=15 -oServerAliveInterval=15 -oServerAliveCountMax=4";
/// Only encrypted or local protocols, and no helper program that an address could start.
const PROTOCOLS: &str = "file:ssh:https";

type Variables = [(OsString, OsString)];

/// Returns whether the variable opens a remote, so that no agent may get it. The token belongs to nothing else.
pub fn opens_a_remote(name: &OsStr, has_remote: bool) -> bool {
    name == TOKEN || has_remote && KEYS.iter().any(|key| name == *key)
}

/// A remote for trees, with its credentials.
#[derive(Clone)]
pub struct Remote {
    address: String,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
    keep: Duration,
    stop: Option<Arc<AtomicBool>>,
    /// Files with keys, which no agent may see.
    key_files: Vec<PathBuf>,
    /// What no message repeats, although the remote may say it.
    secrets: Vec<(&'static str, String)>,
}

/// Reason why an address is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` cannot be a remote: {why}")]
pub struct BadRemote {
    pub address: String,
    pub why: &'static str,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl Remote {
    /// Makes a remote. `variables` is the environment that provost was started with.
    pub fn new(address: &str, variables: &Variables) -> Result<Self, BadRemote> {
        if let Some(why) = wrong_with(address) {
            return Err(BadRemote { address: without_password(address), why });
        }
        let bad = |why| BadRemote { address: address.to_owned(), why };
        let limit = time(variables, LIMIT, USUAL_LIMIT).filter(|limit| !limit.is_zero());
        let keep = time(variables, KEEP, USUAL_KEEP);
        let mut remote = Self {
            address: address.to_owned(),
            environment: vec![("GIT_ALLOW_PROTOCOL".into(), PROTOCOLS.into())],
            limit: limit.ok_or_else(|| bad("PROVOST_REMOTE_LIMIT is not a time such as 10m"))?,
            keep: keep.ok_or_else(|| bad("PROVOST_REMOTE_KEEP is not a time such as 30days"))?,
            stop: None,
            key_files: Vec::new(),
            secrets: Vec::new(),
        };
        if remote.is_by_ssh() {
            remote.use_ssh(variables);
        } else if address.starts_with("https://") {
            remote.use_https(variables);
        }
        Ok(remote)
    }

    /// Ends every command when the flag is set.
    pub fn until(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    pub fn is_by_ssh(&self) -> bool {
        self.address.starts_with("ssh://") || !self.address.starts_with('/') && !self.address.contains("://")
    }

    /// Returns files with keys that open the remote.
    pub fn key_files(&self) -> &[PathBuf] {
        &self.key_files
    }

    /// Returns the longest time of one command.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the time that the trees of a plan at rest stay.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn environment(&self) -> &Variables {
        &self.environment
    }

    pub(super) fn ends(&self) -> Limit<'_> {
        Limit { deadline: self.limit, stop: self.stop.as_deref() }
    }

    /// Returns the text without the credentials of the remote.
    pub(super) fn redacted(&self, text: &str) -> String {
        Redactor::new(self.secrets.iter().map(|(name, value)| (*name, value))).text(text).into_owned()
    }

    fn use_ssh(&mut self, variables: &Variables) {
        let own = find(variables, SSH_COMMAND);
        let mut command = own.map_or_else(|| SSH.into(), OsStr::to_owned);
        let command_text = command.to_string_lossy().into_owned();
        self.key_files.extend(identities(&command_text, find(variables, "HOME")));
        // Another program may not know the options.
        if words(&command_text).next().is_some_and(|word| word.rsplit('/').next() == Some(SSH)) {
            command.push(format!(" {SSH_OPTIONS}"));
        }
        self.environment.push((SSH_COMMAND.into(), command));
        // The command may name files by `~`.
        for name in ["SSH_AUTH_SOCK", "HOME"] {
            self.environment.extend(find(variables, name).map(|value| (name.into(), value.into())));
        }
    }

    fn use_https(&mut self, variables: &Variables) {
        for name in WAYS {
            self.environment.extend(find(variables, name).map(|value| (name.into(), value.into())));
        }
        if !CERTIFICATES.iter().any(|(_, own)| find(variables, own).is_some()) {
            for (usual, own) in CERTIFICATES {
                self.environment.extend(find(variables, usual).map(|value| (own.into(), value.into())));
            }
        }
        self.key_files.extend(find(variables, CLIENT_KEY).map(PathBuf::from));
        // As a setting and not as part of the address, which any user sees in the list of processes.
        if let Some(token) = find(variables, TOKEN).and_then(OsStr::to_str) {
            let encoded = STANDARD.encode(format!("provost:{token}"));
            self.environment.extend([
                ("GIT_CONFIG_COUNT".into(), "1".into()),
                ("GIT_CONFIG_KEY_0".into(), format!("http.{}.extraHeader", self.address).into()),
                ("GIT_CONFIG_VALUE_0".into(), format!("Authorization: Basic {encoded}").into()),
            ]);
            self.secrets = vec![(TOKEN, token.to_owned()), ("Authorization", encoded)];
        }
    }
}

/// Returns the last value of a variable that is not empty.
fn find<'v>(variables: &'v Variables, wanted: &str) -> Option<&'v OsStr> {
    let found = variables.iter().rev().find(|(name, _)| name == wanted)?;
    Some(found.1.as_os_str()).filter(|value| !value.is_empty())
}

/// Returns a time from a variable; `None` if it is not one.
fn time(variables: &Variables, name: &str, usual: Duration) -> Option<Duration> {
    let Some(text) = find(variables, name) else { return Some(usual) };
    humantime::parse_duration(text.to_str()?.trim()).ok()
}

const QUOTES: [char; 2] = ['"', '\''];

fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split_whitespace().map(|word| word.trim_matches(QUOTES))
}

/// Returns the files with keys that an ssh command names.
fn identities(command: &str, home: Option<&OsStr>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut words = words(command);
    while let Some(word) = words.next() {
        let option =
            word.strip_prefix("-o").map(|rest| if rest.is_empty() { words.next() } else { Some(rest) });
        let path = match (word.strip_prefix("-i"), option.flatten()) {
            (Some(""), _) => words.next(),
            (Some(path), _) => Some(path),
            (None, Some(option)) => option.strip_prefix("IdentityFile="),
            (None, None) => None,
        };
        let path = path.map(|path| path.trim_matches(QUOTES));
        found.extend(path.map(|path| match (path.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => PathBuf::from(path),
        }));
    }
    found.retain(|path| path.is_absolute());
    found
}

fn wrong_with(address: &str) -> Option<&'static str> {
    let host = address.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = host.and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
    match address.split_once("://").map(|(scheme, _)| scheme) {
        _ if address.is_empty() || address.starts_with('-') => Some("it is not an address"),
        _ if address.chars().any(|c| c.is_control() || c.is_whitespace()) => Some("it contains spaces"),
        _ if address.contains("::") => Some("it would start a program"),
        Some(_) if user.is_some_and(|user| user.contains(':')) => {
            Some("it must not contain a password; use PROVOST_REMOTE_TOKEN or an ssh key")
        }
        Some("https" | "ssh" | "file") => None,
        Some(_) => Some("it is neither https, nor ssh, nor a folder"),
        None if address.starts_with('/') => None,
        // In scp syntax.
        None if address.split('/').next().is_some_and(|host| host.contains(':')) => None,
        None => Some("name a folder by its absolute path"),
    }
}

/// Removes the credentials from an address for an error message.
fn without_password(address: &str) -> String {
    match address.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, host)) => format!("{scheme}://…@{host}"),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Remote, identities, opens_a_remote, without_password, wrong_with};

    fn environment(address: &str, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let variables: Vec<(OsString, OsString)> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let remote = Remote::new(address, &variables).expect("a remote");
        let text = |text: &OsString| text.to_str().expect("text").to_owned();
        remote.environment.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn value(environment: &[(String, String)], wanted: &str) -> Option<String> {
        environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    }

    #[test]
    fn git_gets_what_leads_to_the_remote_and_nothing_else() {
        let given = [
            ("HTTPS_PROXY", "http://gate.lan:8080"),
            ("no_proxy", ".lan"),
            ("SSL_CERT_FILE", "/etc/authority.pem"),
            ("PROVOST_REMOTE_TOKEN", "open-sesame"),
            ("GIT_SSH_COMMAND", "ssh -i /keys/carry"),
            ("GIT_SSL_NO_VERIFY", "1"),
            ("GIT_CONFIG_COUNT", "7"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        let https = environment("https://git.example.org/carry.git", &given);
        assert_eq!(value(&https, "HTTPS_PROXY").as_deref(), Some("http://gate.lan:8080"));
        assert_eq!(value(&https, "no_proxy").as_deref(), Some(".lan"));
        assert_eq!(value(&https, "GIT_SSL_CAINFO").as_deref(), Some("/etc/authority.pem"));
        assert_eq!(value(&https, "GIT_CONFIG_COUNT").as_deref(), Some("1"));
        let names = ["GIT_SSL_NO_VERIFY", "AWS_SECRET_ACCESS_KEY", "GIT_SSH_COMMAND", "PROVOST_REMOTE_TOKEN"];
        assert!(names.iter().all(|name| value(&https, name).is_none()), "{https:?}");
        let own = [("SSL_CERT_FILE", "/a"), ("GIT_SSL_CAINFO", "/b")];
        let own = environment("https://git.example.org/carry.git", &own);
        assert_eq!(value(&own, "GIT_SSL_CAINFO").as_deref(), Some("/b"));
        let ssh = environment("git@git.example.org:carry.git", &given);
        let command = value(&ssh, "GIT_SSH_COMMAND").expect("a command");
        assert!(command.starts_with("ssh -i /keys/carry -oBatchMode=yes"), "{command}");
        assert!(value(&ssh, "HTTPS_PROXY").is_none() && value(&ssh, "GIT_CONFIG_COUNT").is_none(), "{ssh:?}");
        let wrapper = environment("git@git.example.org:carry.git", &[("GIT_SSH_COMMAND", "/opt/hop")]);
        assert_eq!(value(&wrapper, "GIT_SSH_COMMAND").as_deref(), Some("/opt/hop"));
    }

    #[test]
    fn files_with_keys_are_known() {
        let command =
            "ssh -i /keys/one -i\"/keys/two\" -o IdentityFile=/keys/three -oIdentityFile=~/four -p 22";
        let home = Some("/home/ada".as_ref());
        let found: Vec<String> =
            identities(command, home).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, ["/keys/one", "/keys/two", "/keys/three", "/home/ada/four"]);
        assert!(opens_a_remote("PROVOST_REMOTE_TOKEN".as_ref(), false));
        assert!(opens_a_remote("GIT_SSH_COMMAND".as_ref(), true));
        assert!(!opens_a_remote("GIT_SSH_COMMAND".as_ref(), false));
        assert!(!opens_a_remote("HTTPS_PROXY".as_ref(), true));
    }

    #[test]
    fn limits_are_times() {
        let limit =
            |text: &str| Remote::new("/srv/carry.git", &[("PROVOST_REMOTE_LIMIT".into(), text.into())]);
        assert_eq!(limit("90s").expect("a limit").limit().as_secs(), 90);
        assert_eq!(limit("").expect("a limit").limit().as_secs(), 600);
        for bad in ["soon", "0s"] {
            assert!(limit(bad).expect_err(bad).to_string().contains("PROVOST_REMOTE_LIMIT"));
        }
        let keep = |text: &str| Remote::new("/srv/carry.git", &[("PROVOST_REMOTE_KEEP".into(), text.into())]);
        assert_eq!(keep("0s").expect("a time").keep().as_secs(), 0);
        assert!(keep("long").is_err());
    }

    #[test]
    fn only_addresses_that_start_nothing_and_tell_nothing_are_taken() {
        for good in [
            "/srv/carry.git",
            "file:///srv/carry.git",
            "https://git.example.org/carry.git",
            "ssh://git@git.example.org/carry.git",
            "git@git.example.org:team/carry.git",
        ] {
            assert_eq!(wrong_with(good), None, "{good}");
        }
        for bad in [
            "",
            "--upload-pack=sh",
            "ext::sh -c x",
            "ext::sh",
            "carry.git",
            "../carry.git",
            "http://git.example.org/carry.git",
            "git://git.example.org/carry.git",
            "https://ada:secret@git.example.org/carry.git",
        ] {
            assert!(wrong_with(bad).is_some(), "{bad}");
            assert!(!without_password(bad).contains("secret"), "{bad}");
        }
    }
}
