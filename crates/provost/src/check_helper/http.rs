//! `provost-check http`: a service starts, answers, and the answer is the expected one.

use std::ffi::OsString;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::command;
use super::ending::Ending;
use super::service::{PAUSE, Service, go_on};

/// Longest wait for one response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most characters of a body that are shown.
const SHOWN: usize = 300;
/// Longest body that is read, in bytes.
const BODY_MAX: u64 = 16 * 1024 * 1024;

/// Start a service, wait until it answers, and check the answer
///
/// The service runs in a process group of its own. It and everything that it started is ended in any case.
/// It finds its port in `PORT`; `{port}` in the command is replaced by it. Without --port and --url, a free
/// port is used.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check http --path /health --contains ok -- python3 app.py
  provost-check http --port 8000 --status 404 --path /no-such-page -- python3 -m http.server 8000
  provost-check http --path /user/1 --json /name=Ada --json /age=36 -- node server.js")]
pub(super) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// The expected status
    #[arg(long, default_value_t = 200, value_name = "CODE")]
    status: u16,
    /// A text that the body must contain; may be repeated
    #[arg(long, value_name = "TEXT")]
    contains: Vec<String>,
    /// A value in a body of JSON, as a JSON pointer: /name=Ada; may be repeated
    #[arg(long, value_name = "POINTER=VALUE")]
    json: Vec<String>,
}

/// The service of a recipe, and where it answers.
#[derive(clap::Args, Debug)]
pub(super) struct ServiceArgs {
    /// The port that the service listens on
    #[arg(long, conflicts_with = "url")]
    port: Option<u16>,
    /// The address to ask, instead of http://127.0.0.1:PORT
    #[arg(long)]
    url: Option<String>,
    /// The path to ask; / if there is none
    #[arg(long)]
    path: Option<String>,
    /// How long it may take until there is an answer
    #[arg(long, default_value = "30s", value_name = "TIME")]
    wait: humantime::Duration,
    /// The service and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl ServiceArgs {
    /// Starts the service in a folder, and waits until it answers; returns it and the URL to ask.
    pub(super) fn start(&self, folder: &Path) -> Result<(Service, String), Ending> {
        let address = Address::find(self.port, self.url.as_deref())?;
        let service = address.serve(folder, &self.command, self.wait())?;
        Ok((service, address.with_path(self.path.as_deref())))
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait.into()
    }
}

/// Where a service answers.
pub(super) struct Address {
    pub(super) port: u16,
    host: String,
    /// Without a path.
    url: String,
}

impl Address {
    /// Uses the port or the URL; a free port if neither is given.
    pub(super) fn find(port: Option<u16>, url: Option<&str>) -> Result<Self, Ending> {
        let Some(url) = url else {
            let port = match port {
                Some(port) => port,
                None => free_port()?,
            };
            return Ok(Self { port, host: "127.0.0.1".to_owned(), url: format!("http://127.0.0.1:{port}") });
        };
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            Ending::Usage(format!("`{url}` does not begin with http://; a service of a check has no TLS"))
        })?;
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (authority, Some(80)),
        };
        let port = port.ok_or_else(|| Ending::Usage(format!("`{url}` has no valid port")))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self { port, host, url: url.trim_end_matches('/').to_owned() })
    }

    pub(super) fn with_path(&self, path: Option<&str>) -> String {
        match path {
            Some(path) => format!("{}/{}", self.url, path.trim_start_matches('/')),
            None => self.url.clone(),
        }
    }

    fn answers(&self) -> bool {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let connects = |address| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        found.is_ok_and(|mut addresses| addresses.any(connects))
    }

    /// Starts a service, and waits until its port answers.
    fn serve(&self, folder: &Path, command: &[OsString], wait: Duration) -> Result<Service, Ending> {
        // Fails if this check may not use ports at all.
        free_port()?;
        if self.answers() {
            let port = self.port;
            return Err(Ending::NotRun(format!("port {port} answers before the service was started")));
        }
        let port = self.port.to_string();
        let filled: Vec<OsString> = command
            .iter()
            .map(|word| word.to_str().map_or(word.clone(), |word| word.replace("{port}", &port).into()))
            .collect();
        let mut service = Service::start(folder, &filled, &[("PORT", port)])?;
        let begun = Instant::now();
        while !self.answers() {
            go_on()?;
            if let Some(status) = service.ended() {
                let how = command::ended(status);
                let why = format!("the service ended with {how} before port {} answered", self.port);
                return Err(service.with_output(Ending::Unmet(why)));
            }
            if begun.elapsed() >= wait {
                let wait = humantime::format_duration(wait);
                let why = format!("port {} did not answer within {wait}", self.port);
                return Err(service.with_output(Ending::Unmet(why)));
            }
            sleep(PAUSE);
        }
        Ok(service)
    }
}

fn free_port() -> Result<u16, Ending> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let hint = "no port can be used here (at isolation `landlock`, the step needs `**network:** on`)";
    bound.map(|address| address.port()).map_err(|error| Ending::not_run(hint, error))
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    let wanted = args.json.iter().map(|each| Wanted::read(each)).collect::<Result<Vec<_>, _>>()?;
    let (mut service, url) = args.service.start(Path::new("."))?;
    let response =
        ask(&url, args.service.wait(), &mut service).map_err(|ending| service.with_output(ending))?;
    let unmet = response.objections(args, &wanted);
    match unmet.is_empty() {
        true => Ok(format!("{url} answered {}", response.status)),
        false => {
            let body: String = response.body.chars().take(SHOWN).collect();
            let ending = Ending::unmet_all(&unmet).noted(&format!("the body begins with {body:?}"));
            Err(service.with_output(ending))
        }
    }
}

struct ServiceResponse {
    status: u16,
    body: String,
}

/// Asks until a response is complete: a port may accept connections before its service is ready.
fn ask(url: &str, wait: Duration, service: &mut Service) -> Result<ServiceResponse, Ending> {
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(PATIENCE))
        .build();
    let agent = ureq::Agent::new_with_config(config);
    let begun = Instant::now();
    loop {
        go_on()?;
        let asked = agent.get(url).call().and_then(|mut response| {
            let body = response.body_mut().with_config().limit(BODY_MAX).read_to_vec()?;
            let body = String::from_utf8_lossy(&body).into_owned();
            Ok(ServiceResponse { status: response.status().as_u16(), body })
        });
        match asked {
            Ok(response) => return Ok(response),
            Err(error) if begun.elapsed() >= wait || service.ended().is_some() => {
                return Err(Ending::Unmet(format!("{url} gave no complete answer: {error}")));
            }
            Err(_) => sleep(PAUSE),
        }
    }
}

impl ServiceResponse {
    fn objections(&self, args: &Args, wanted: &[Wanted]) -> Vec<String> {
        let mut unmet = Vec::new();
        if self.status != args.status {
            unmet.push(format!("the status is {}, and should be {}", self.status, args.status));
        }
        for text in args.contains.iter().filter(|text| !self.body.contains(text.as_str())) {
            unmet.push(format!("the body does not contain {text:?}"));
        }
        if !wanted.is_empty() {
            match serde_json::from_str::<Value>(&self.body) {
                Ok(json) => unmet.extend(wanted.iter().filter_map(|wanted| wanted.objection(&json))),
                Err(error) => unmet.push(format!("the body is not JSON: {error}")),
            }
        }
        unmet
    }
}

/// A value that a body of JSON must have.
#[derive(Debug, PartialEq)]
struct Wanted {
    pointer: String,
    value: Value,
}

impl Wanted {
    /// Reads `/name=Ada`. A value that is not JSON is a text.
    fn read(text: &str) -> Result<Self, Ending> {
        let split =
            text.split_once('=').filter(|(pointer, _)| pointer.is_empty() || pointer.starts_with('/'));
        let (pointer, value) =
            split.ok_or_else(|| Ending::Usage(format!("--json {text}: write /POINTER=VALUE")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Self { pointer: pointer.to_owned(), value })
    }

    fn objection(&self, json: &Value) -> Option<String> {
        let Self { pointer, value } = self;
        match json.pointer(pointer) {
            Some(found) if found == value => None,
            Some(found) => Some(format!("{pointer} is {found}, and should be {value}")),
            None => Some(format!("{pointer} is not in the body; it should be {value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_json_or_a_text() {
        let json = serde_json::json!({"name": "Ada", "age": 36, "tags": ["a"]});
        let objection = |text: &str| Wanted::read(text).unwrap().objection(&json);
        for met in ["/name=Ada", "/name=\"Ada\"", "/age=36", "/tags/0=a", "/tags=[\"a\"]"] {
            assert_eq!(objection(met), None, "{met}");
        }
        assert_eq!(objection("/age=37").unwrap(), "/age is 36, and should be 37");
        assert_eq!(objection("/no=1").unwrap(), "/no is not in the body; it should be 1");
        assert!(matches!(Wanted::read("name=Ada"), Err(Ending::Usage(_))));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let find = |url: &str| Address::find(None, Some(url)).map(|found| (found.host.clone(), found.port));
        assert_eq!(find("http://localhost:80/x"), Ok(("localhost".to_owned(), 80)));
        assert_eq!(find("http://[::1]:90"), Ok(("::1".to_owned(), 90)));
        assert!(matches!(find("https://localhost"), Err(Ending::Usage(_))));
        assert!(matches!(find("http://localhost:x"), Err(Ending::Usage(_))));
        let found = Address::find(Some(81), None).unwrap_or_else(|_| panic!("a port"));
        assert_eq!(found.with_path(Some("/a/b")), "http://127.0.0.1:81/a/b");
    }
}
