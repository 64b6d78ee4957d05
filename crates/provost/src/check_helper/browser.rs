//! A headless browser for recipes.
//!
//! It is driven through its debugging pipe: messages in JSON, each with a zero byte at its end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::ending::Ending;
use super::service::go_on;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// Makes the pipe out of standard input and output.
const PIPED: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

/// Time that the browser has for an answer: on a busy machine it takes seconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Returns the first browser on `PATH`.
pub(super) fn find() -> Result<PathBuf, Ending> {
    let found = BROWSERS.iter().find_map(|name| on_path(name));
    found.ok_or_else(|| Ending::NotRun(format!("none of {} is on PATH", BROWSERS.join(", "))))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// A running browser with one page.
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    pub(super) errors: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    pub(super) fn start(program: &Path) -> Result<Self, Ending> {
        let failed = |error| Ending::not_run("start the browser", error);
        let profile = tempfile::tempdir().map_err(failed)?;
        let mut command = Command::new("sh");
        command.args(["-c", PIPED]).arg(program).args([
            "--headless",
            // The check is a sandbox already, and none can be made inside of it.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (Some(to), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Ending::NotRun("the browser has no pipe".to_owned()));
        };
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let parsed = serde_json::from_slice(&message);
                message.clear();
                if parsed.is_ok_and(|value| sender.send(value).is_err()) {
                    return;
                }
            }
        });
        Ok(Self { child, to, from, next: 0, session: None, errors: Vec::new(), _profile: profile })
    }

    /// Opens an address in a new tab.
    pub(super) fn open(&mut self, url: &str, until: Instant) -> Result<(), Ending> {
        self.session = None;
        let made = self.call("Target.createTarget", json!({"url": "about:blank"}), until)?;
        let target = json!({"targetId": made["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target, until)?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for method in ["Runtime.enable", "Log.enable", "Page.enable"] {
            self.call(method, json!({}), until)?;
        }
        let opened = self.call("Page.navigate", json!({"url": url}), until)?;
        match opened["errorText"].as_str() {
            Some(error) => Err(Ending::Unmet(format!("{url} cannot be opened: {error}"))),
            None => Ok(()),
        }
    }

    /// Returns the value of an expression in the page, after its promise.
    pub(super) fn evaluate(&mut self, expression: &str, until: Instant) -> Result<Value, Ending> {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let found = self.call("Runtime.evaluate", asked, until)?;
        Ok(found["result"]["value"].clone())
    }

    /// Calls a method of the browser, and returns its result. The browser has some time for an answer also if the
    /// time of the page is over.
    pub(super) fn call(&mut self, method: &str, parameters: Value, until: Instant) -> Result<Value, Ending> {
        let until = until.max(Instant::now() + ANSWERS_WITHIN);
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let gone = || Ending::NotRun("the browser ended or does not answer".to_owned());
        self.to.write_all(&bytes).and_then(|()| self.to.flush()).map_err(|_| gone())?;
        loop {
            go_on()?;
            let left = until.saturating_duration_since(Instant::now());
            let message = self.from.recv_timeout(left).map_err(|_| gone())?;
            if message["id"] == self.next {
                return match message.get("error") {
                    Some(error) => Err(Ending::not_run(method, &error["message"])),
                    None => Ok(message["result"].clone()),
                };
            }
            self.note(&message);
        }
    }

    /// Reads events for a while.
    pub(super) fn listen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => self.note(&message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn note(&mut self, message: &Value) {
        self.errors.extend(console_error(message));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Returns the text of an event that reports an error.
fn console_error(message: &Value) -> Option<String> {
    let parameters = &message["params"];
    match message["method"].as_str()? {
        "Runtime.exceptionThrown" => {
            let details = &parameters["exceptionDetails"];
            let text = details["exception"]["description"].as_str().or(details["text"].as_str());
            Some(text.unwrap_or("an exception").to_owned())
        }
        "Runtime.consoleAPICalled" if ["error", "assert"].contains(&parameters["type"].as_str()?) => {
            let words = parameters["args"].as_array()?.iter();
            let words = words.map(|word| match word["value"].as_str() {
                Some(text) => text.to_owned(),
                None => word["description"].as_str().unwrap_or("…").to_owned(),
            });
            Some(words.collect::<Vec<_>>().join(" "))
        }
        "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
            let entry = &parameters["entry"];
            let url = entry["url"].as_str().unwrap_or_default();
            // Browsers ask for it unbidden.
            let is_icon = url.ends_with("/favicon.ico");
            (!is_icon)
                .then(|| format!("{} {url}", entry["text"].as_str().unwrap_or_default()).trim().to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_console_are_told_from_other_events() {
        let error = |method: &str, params: Value| console_error(&json!({"method": method, "params": params}));
        let said = json!({"type": "error", "args": [{"type": "string", "value": "no"}, {"description": "Error: x"}]});
        assert_eq!(error("Runtime.consoleAPICalled", said).unwrap(), "no Error: x");
        assert_eq!(error("Runtime.consoleAPICalled", json!({"type": "log", "args": []})), None);
        let missing = |url: &str| json!({"entry": {"level": "error", "text": "404", "url": url}});
        assert_eq!(error("Log.entryAdded", missing("http://h/a.js")).unwrap(), "404 http://h/a.js");
        assert_eq!(error("Log.entryAdded", missing("http://h/favicon.ico")), None);
        let thrown =
            json!({"exceptionDetails": {"text": "Uncaught", "exception": {"description": "Error: y"}}});
        assert_eq!(error("Runtime.exceptionThrown", thrown).unwrap(), "Error: y");
    }
}
