//! Tests the sign-in at a real OpenID provider: the package `oidc-provider` of npm, started on loopback by
//! `tests/browser/provider.mjs`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Reply, Server, form_key, id_of, reply, token, verified};
use crate::env::{Env, HONEST, plan};
use crate::registry;

/// The secret of the client, as `provider.mjs` has it.
pub(crate) const SECRET: (&str, &str) = ("OIDC_SECRET", "a secret + with: odd % signs");

/// Installs the provider; `None` if npm cannot, which is counted as skipped.
pub(crate) fn package() -> Option<PathBuf> {
    registry::npm("oidc", "node_modules/oidc-provider/package.json", &["oidc-provider@9"])
}

/// A running provider.
pub(crate) struct Provider {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(crate) issuer: String,
}

impl Provider {
    /// Starts a provider. With `full_tokens` its ID tokens have all claims; otherwise they are in the user info.
    pub(crate) fn start(modules: &Path, full_tokens: bool) -> Self {
        let mut child = Command::new("node")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/provider.mjs"))
            .env("MODULES", modules)
            .env("FULL_TOKENS", if full_tokens { "yes" } else { "no" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("stdout"));
        let mut provider = Self { child, input, output: BufReader::new(output), issuer: String::new() };
        let ready: serde_json::Value = serde_json::from_str(&provider.line()).expect("JSON");
        provider.issuer = ready["issuer"].as_str().expect("an issuer").to_owned();
        provider
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    /// Sets the address that it accepts, or makes it `rotate` its keys.
    pub(crate) fn tell(&mut self, words: &str) {
        let input = self.input.as_mut().expect("stdin");
        writeln!(input, "{words}").and_then(|()| input.flush()).expect("written");
        assert_eq!(self.line(), "done\n");
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the provider into the configuration, with a rule for each kind of person.
pub(crate) fn configure(env: &Env, issuer: &str, algorithm: &str) {
    let section = format!(
        "[serve.oidc]\nissuer = \"{issuer}\"\nclient_id = \"provost-{algorithm}\"\nclient_secret_env = \"{}\"\n\
         name = \"Example\"\nscopes = [\"openid\", \"email\", \"groups\"]\n\
         [[serve.oidc.allow]]\nemail = \"bob@example.com\"\nscope = \"admin\"\n\
         [[serve.oidc.allow]]\ngroup = \"reviewers\"\nscope = \"decide\"\n\
         [[serve.oidc.allow]]\ngroup = \"viewers\"\nscope = \"view\"\n",
        SECRET.0
    );
    env.write("provost.toml", env.read("provost.toml") + &section);
}

/// Starts a server whose address the provider knows.
fn serve(env: &Env, provider: &mut Provider) -> Server {
    let server = Server::with(env, "127.0.0.1:0", &[SECRET]);
    provider.tell(&format!("http://{}/sign-in/callback", server.address));
    server
}

/// A browser: its cookies, by server.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, BTreeMap<String, String>>,
}

impl Browser {
    /// Sends a request, keeps the cookies of the answer, and follows nothing.
    fn send(&mut self, method: &str, url: &str, form: &str) -> Reply {
        let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let cookies: Vec<String> = self
            .cookies
            .entry(host.to_owned())
            .or_default()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: text/html\r\n\
             Cookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            cookies.join("; "),
            form.len()
        );
        let mut stream = TcpStream::connect(host).expect("connected");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(120))).expect("a time-out");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        for line in head.lines().filter(|line| line.to_lowercase().starts_with("set-cookie: ")) {
            let pair = line[12..].split(';').next().and_then(|pair| pair.split_once('='));
            let (name, value) = pair.expect("a cookie");
            self.cookies.entry(host.to_owned()).or_default().insert(name.to_owned(), value.to_owned());
        }
        reply(&text)
    }

    fn get(&mut self, url: &str) -> Reply {
        self.send("GET", url, "")
    }

    /// Goes from the page to sign in to the provider, signs in as this person, and returns the address to which
    /// the provider sends the browser back.
    fn led_back(&mut self, server: &Server, next: &str, person: &str) -> String {
        let begun = self.get(&format!("http://{}/sign-in?next={next}", server.address)).is(303);
        let mut place = begun.head("location").to_owned();
        let host =
            place.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a host").to_owned();
        for _ in 0..10 {
            let answer = match place.contains("/interaction/") {
                false => self.get(&place),
                true => {
                    self.get(&place).is(200);
                    self.send("POST", &place, &format!("login={person}"))
                }
            };
            place = answer.is(303).head("location").to_owned();
            if place.starts_with('/') {
                place = format!("http://{host}{place}");
            }
            if place.contains(&server.address) {
                return place;
            }
        }
        panic!("the provider leads nowhere: {place}");
    }

    /// Signs in as this person.
    fn sign_in(&mut self, server: &Server, next: &str, person: &str) -> Reply {
        // A person at another computer has no session at the provider.
        self.cookies.retain(|host, _| *host == server.address);
        let back = self.led_back(server, next, person);
        self.get(&back)
    }

    /// Returns the cookie of the session.
    fn session(&self, server: &Server) -> String {
        let port = server.address.rsplit(':').next().expect("a port");
        let name = format!("provost_{port}");
        format!("{name}={}", self.cookies[&server.address].get(&name).map_or("", String::as_str))
    }
}

#[test]
fn a_person_signs_in_at_a_provider_decides_and_signs_out() {
    let Some(modules) = package() else { return };
    let mut provider = Provider::start(&modules, false);
    let env = verified();
    configure(&env, &provider.issuer, "RS256");
    let server = serve(&env, &mut provider);
    let gate = format!("/plans/{}/gate", id_of(&server, &token(&env, "view")));
    let mut alice = Browser::default();

    // The page to sign in offers the provider, and leads on to the decision.
    let page = alice.get(&format!("http://{}{gate}", server.address)).is(401).body;
    assert!(page.contains("Sign in with Example") && page.contains("With a link"), "{page}");
    let next: String = gate.replace('/', "%2F");
    assert!(page.contains(&format!("/sign-in?next={next}")), "{page}");
    let welcome = alice.sign_in(&server, &next, "alice").is(200).body;
    assert!(welcome.contains(&format!("0; url={gate}")), "{welcome}");

    // The session decides under the name of the person, and lasts.
    let session = alice.session(&server);
    let page = server.browse(&gate, &session).is(200).body;
    assert!(page.contains(">alice@example.com</a>"), "{page}");
    let form = format!("decision=approve&revision={}&form_key={}", env.revision(), form_key(&page));
    server.submit(&gate, &session, &form).is(303);
    server.browse(&gate, &session).is(200);
    let log = env.provost(&["log", "--json", "--event", "GATE_APPROVED"]).exits(0);
    let by = log.lines()[0]["details"]["by"]["person"].as_str().expect("a person").to_owned();
    assert!(by.starts_with("alice@example.com (oidc:"), "{by}");

    // It is a session like any other: listed, and ended by leaving.
    let listed = env.provost(&["serve", "tokens", "--json"]).exits(0).json();
    let own = listed.as_array().expect("a list").iter().find(|each| each["name"] == by.as_str()).expect("it");
    assert_eq!((&own["kind"], &own["scope"]), (&"session".into(), &"decide".into()));
    let page = server.browse("/sessions", &session).is(200).body;
    assert!(page.contains(&by) && page.contains("(this session)"), "{page}");
    let left = server.submit("/leave", &session, &format!("form_key={}", form_key(&page))).is(200).body;
    assert!(left.contains("You are logged out") && left.contains("Sign in with Example"), "{left}");
    assert!(left.contains("/session/end?client_id=provost-RS256"), "{left}");
    server.browse("/", &session).is(401);
    // A new sign-in is the same person.
    alice.sign_in(&server, "%2F", "alice").is(200);
    let again = server.browse("/sessions", &alice.session(&server)).is(200).body;
    assert!(again.contains(&by), "{again}");
}

#[test]
fn people_without_a_rule_stay_out_and_a_viewer_decides_nothing() {
    let Some(modules) = package() else { return };
    let mut provider = Provider::start(&modules, true);
    let env = verified();
    configure(&env, &provider.issuer, "ES256");
    let server = serve(&env, &mut provider);
    let gate = format!("/plans/{}/gate", id_of(&server, &token(&env, "view")));

    let mut eve = Browser::default();
    let refused = eve.sign_in(&server, "%2Finbox", "eve").is(403).body;
    // With another account she would get to the page that she wanted.
    assert!(refused.contains("/sign-in?next=%2Finbox"), "{refused}");
    assert!(refused.contains("You are not signed in"), "{refused}");
    assert!(refused.contains("eve@example.com may not use this server: no rule"), "{refused}");
    server.browse("/", &eve.session(&server)).is(401);
    // The address of bob has a rule, but the provider has not verified it.
    let refused = Browser::default().sign_in(&server, "%2F", "bob").is(403).body;
    assert!(refused.contains("bob may not use this server"), "{refused}");
    // The provider itself refuses somebody.
    let denied = Browser::default().sign_in(&server, "%2F", "mallory").is(403).body;
    assert!(denied.contains("access_denied (nobody has that name)"), "{denied}");

    let mut vera = Browser::default();
    vera.sign_in(&server, "%2F", "vera").is(200);
    let page = server.browse(&gate, &vera.session(&server)).is(200).body;
    assert!(page.contains("may only look"), "{page}");
    let form = format!("decision=approve&revision={}&form_key={}", env.revision(), form_key(&page));
    server.submit(&gate, &vera.session(&server), &form).is(403);
    assert_eq!(env.stage(), "verified");

    // Nobody is led away from this server.
    for elsewhere in ["https:%2F%2Fevil.example", "%2F%2Fevil.example", "%2F%5Cevil.example"] {
        let welcome = vera.sign_in(&server, elsewhere, "vera").is(200).body;
        assert!(welcome.contains("0; url=/\""), "{elsewhere}: {welcome}");
    }
}

#[test]
fn a_callback_works_once_in_one_browser_and_keys_may_change() {
    let Some(modules) = package() else { return };
    let mut provider = Provider::start(&modules, false);
    let env = verified();
    configure(&env, &provider.issuer, "EdDSA");
    let server = serve(&env, &mut provider);
    let not_begun = "this browser has no sign-in under way";

    // The address of a callback in another browser, which has no cookie.
    let mut alice = Browser::default();
    let back = alice.led_back(&server, "%2F", "alice");
    let stolen = Browser::default().get(&back).is(403).body;
    assert!(stolen.contains(not_begun), "{stolen}");
    // It was used up by that.
    assert!(alice.get(&back).is(403).body.contains(not_begun));
    // A callback that is sent again, also with the cookie of its sign-in.
    let mut alice = Browser::default();
    let back = alice.led_back(&server, "%2F", "alice");
    let binding = alice.cookies[&server.address].clone();
    alice.get(&back).is(200);
    let mut replay = Browser { cookies: BTreeMap::from([(server.address.clone(), binding)]) };
    assert!(replay.get(&back).is(403).body.contains(not_begun));
    // In the browser that is signed in, it leads on.
    alice.get(&back).is(200);
    // A code of another sign-in does not fit: the provider knows its challenge.
    let (mut one, mut two) = (Browser::default(), Browser::default());
    let (first, second) = (one.led_back(&server, "%2F", "alice"), two.led_back(&server, "%2F", "eve"));
    let code = |back: &str| {
        back.split("code=").nth(1).and_then(|rest| rest.split('&').next()).expect("a code").to_owned()
    };
    let mixed = two.get(&second.replace(&code(&second), &code(&first))).is(502).body;
    assert!(mixed.contains("invalid_grant"), "{mixed}");

    // The provider has new keys: the next token names one that is not known yet.
    provider.tell("rotate");
    Browser::default().sign_in(&server, "%2F", "alice").is(200);
    // A prefetch begins nothing.
    server.bare("GET", "/sign-in", &[("Sec-Purpose", "prefetch"), ("Accept", "text/html")], "").is(503);
    // Under another name of the server, the browser goes to the one that the provider knows.
    let port = server.address.rsplit(':').next().expect("a port");
    let localhost = format!("localhost:{port}");
    let moved = server.bare("GET", "/sign-in?next=%2Finbox", &[("Host", &localhost)], "").is(303);
    assert_eq!(moved.head("location"), format!("http://{}/sign-in?moved=1&next=%2Finbox", server.address));
    let cookie = server.bare("GET", "/sign-in", &[], "").is(303).head("set-cookie").to_owned();
    for part in ["Path=/sign-in", "HttpOnly", "SameSite=Lax", "Max-Age=600"] {
        assert!(cookie.contains(part), "{cookie}");
    }
}

/// Starts a server, and returns it with the lines that it prints for people until one contains `words`.
fn says(env: &Env, words: &str) -> (Server, String) {
    let mut command = env.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
    let command = command.env(SECRET.0, SECRET.1).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("provost serve");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("a line");
    let ready: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let mut errors = BufReader::new(child.stderr.take().expect("stderr"));
    let mut said = String::new();
    while !said.contains(words) {
        assert!(errors.read_line(&mut said).expect("a line") > 0, "{said}");
    }
    let text = |name: &str| ready[name].as_str().expect("text").to_owned();
    (Server { child, address: text("address"), link: text("link") }, said)
}

#[test]
fn without_its_provider_the_server_starts_and_links_work() {
    let env = verified();
    // A port on which nobody listens.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    configure(&env, &format!("http://127.0.0.1:{port}"), "RS256");
    let (server, said) = says(&env, "links work");
    assert!(said.contains("people cannot sign in with Example now"), "{said}");
    let page = server.bare("GET", "/sign-in", &[("Accept", "text/html")], "").is(502).body;
    assert!(page.contains("the identity provider cannot be reached"), "{page}");
    server.browse("/", &server.enter()).is(200);
    // Without a provider there is no such page.
    drop(server);
    let env = verified();
    let server = Server::start(&env);
    server.bare("GET", "/sign-in", &[], "").is(404);
    server.bare("GET", "/sign-in/callback?code=a&state=b", &[], "").is(404);
    let page = server.bare("GET", "/", &[("Accept", "text/html")], "").is(401).body;
    assert!(!page.contains("Sign in with "), "{page}");
}

#[test]
fn mistakes_in_the_section_are_named() {
    let env = verified();
    configure(&env, "http://127.0.0.1:1", "RS256");
    let right = env.read("provost.toml");
    let serve = |text: &str| {
        env.write("provost.toml", text);
        env.provost(&["serve", "--listen", "127.0.0.1:0"]).exits(2).err
    };
    let missing = serve(&right);
    assert!(missing.contains("the variable OIDC_SECRET, which `client_secret_env`"), "{missing}");
    let file = right.replace("client_secret_env = \"OIDC_SECRET\"", "client_secret_file = \"secret\"");
    let unreadable = serve(&file);
    assert!(
        unreadable.contains("/secret, which `client_secret_file` under [serve.oidc] names"),
        "{unreadable}"
    );
    env.write("secret", "\n");
    assert!(serve(&file).contains("is empty"));
    env.write("secret", "two\nlines\n");
    assert!(serve(&file).contains("has more than one line"));
    env.write("secret", "s");
    let folder = file.replace("scope = \"view\"", "scope = \"view\"\nrepositories = [\"gone\"]");
    assert!(serve(&folder).contains("/gone, which is not a folder"));
}

/// An agent without a sandbox can write provost.toml, so a provider that appears later needs a person's word.
#[test]
fn a_provider_that_agents_can_have_written_is_used_after_a_person_trusts_it() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let mut person = env.person();
    env.provost(&["verify"]).exits(0);
    env.approve();
    env.provost(&["run"]).exits(0);
    configure(&env, "http://127.0.0.1:1", "RS256");
    let (server, said) = says(&env, "provost serve trust");
    assert!(said.contains("agents can have written [serve.oidc]"), "{said}");
    server.bare("GET", "/sign-in", &[], "").is(404);
    drop(server);
    // Somebody at a terminal that an agent can have opened is not trusted either.
    let refused = env.provost(&["serve", "trust"]).exits(5);
    assert!(refused.err.contains("terminal"), "{}", refused.err);
    person.provost(&["serve", "trust"]).exits(0);
    let (server, _) = says(&env, "links work");
    server.bare("GET", "/sign-in", &[("Accept", "text/html")], "").is(502);
    drop(server);
    // After a change a person must trust it again.
    env.write("provost.toml", env.read("provost.toml").replace("reviewers", "everybody"));
    let (server, _) = says(&env, "provost serve trust");
    server.bare("GET", "/sign-in", &[], "").is(404);
    env.write("provost.toml", "");
    person.provost(&["serve", "trust"]).exits(2);
}

/// No command uses a provost.toml that the agent wrote, this one neither.
#[test]
fn a_provider_that_an_agent_wrote_is_not_offered() {
    let agent = "printf '[serve.oidc]\\nissuer = \"http://127.0.0.1:1\"\\nclient_id = \"a\"\\n[[serve.oidc.allow]]\\n\
                 email = \"*@evil.example\"\\nscope = \"decide\"\\n' >> provost.toml\nmkdir -p out; touch out/1\n";
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(agent).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert!(env.read("provost.toml").contains("evil.example"));
    let refused = env.provost(&["serve", "--listen", "127.0.0.1:0"]).exits(5);
    assert!(refused.err.contains("provost.toml appeared or changed while the agent"), "{}", refused.err);
}
