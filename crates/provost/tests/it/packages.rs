//! Tests the packages: each is made by `packaging/make`, installed offline into a fresh folder with an empty
//! home, and tried.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Answer, answer};

#[path = "../../build_stamp.rs"]
mod build_stamp;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Makes all packages once, from the binary under test. `None` without `dpkg-deb`.
#[track_caller]
fn packages() -> Option<&'static Path> {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        skip::tool("dpkg-deb", "apt-get install dpkg");
        return None;
    }
    let made = MADE.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        // Those of earlier runs are large.
        for old in std::fs::read_dir(&all).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(old.file_name()).exists() {
                let _ = std::fs::remove_dir_all(old.path());
            }
        }
        let folder = all.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        let binary = folder.join("provost");
        // Debug information is most of a debug binary.
        let strip = Command::new("strip").arg("-o").arg(&binary).arg(env!("CARGO_BIN_EXE_provost")).status();
        assert!(strip.expect("strip").success());
        let out = folder.join("out");
        let mut make = Command::new("python3");
        make.arg(root().join("packaging/make")).arg("--quick").arg("--out").arg(&out).arg(&binary);
        let made = answer(make.output().expect("python3"));
        made.exits(0);
        std::fs::remove_file(binary).expect("the copy");
        out
    });
    Some(made)
}

/// Returns the one package whose name begins and ends so.
fn package(folder: &Path, begin: &str, end: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("packages").flatten().map(|entry| entry.path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    };
    let found: Vec<PathBuf> = files.filter(fits).collect();
    assert_eq!(found.len(), 1, "{begin}…{end} in {}: {found:?}", folder.display());
    found[0].clone()
}

/// A folder to install into, with an empty home.
struct Fresh {
    folder: tempfile::TempDir,
}

impl Fresh {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        std::fs::create_dir(folder.path().join("home")).expect("a home");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Answer {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.path("home"));
        answer(command.output().expect("a program"))
    }

    /// Runs the installed program: its version, and the demo.
    #[track_caller]
    fn try_out(&self, program: &Path) {
        let version = self.run(program, &["--version"]).exits(0);
        assert_eq!(version.out, format!("provost {VERSION}\n"));
        let demo = self.run(program, &["demo", "--fast"]).exits(0);
        assert!(demo.out.contains("🟡 plan done: 3 verified, 1 self-checked"), "{}", demo.out);
        let unknown = self.run(program, &["no-such-command"]);
        assert_eq!(unknown.code, 2, "the exit code reaches the caller");
    }
}

#[test]
fn the_wheel_installs_offline_and_runs() {
    let Some(made) = packages() else { return };
    let fresh = Fresh::new();
    let made_environment = fresh.run("python3", &["-m", "venv", "venv"]);
    if made_environment.code != 0 {
        return skip::tool("python3-venv", "apt-get install python3-venv");
    }
    let wheel = package(made, "provost_cli-", ".whl");
    let pip = fresh.path("venv/bin/pip");
    let words = ["install", "--quiet", "--no-index", "--no-cache-dir", "--disable-pip-version-check"];
    fresh.run(&pip, &[&words[..], &[wheel.to_str().unwrap()]].concat()).exits(0);
    fresh.try_out(&fresh.path("venv/bin/provost"));
    let shown = fresh.run(&pip, &["show", "--files", "--disable-pip-version-check", "provost-cli"]).exits(0);
    assert!(
        shown.out.contains(&format!("Version: {VERSION}")) && shown.out.contains("bin/provost"),
        "{}",
        shown.out
    );
    fresh.run(&pip, &["uninstall", "--yes", "--disable-pip-version-check", "provost-cli"]).exits(0);
    assert!(!fresh.path("venv/bin/provost").exists());
}

#[test]
fn the_npm_packages_install_offline_and_run() {
    let Some(made) = packages() else { return };
    let fresh = Fresh::new();
    if Command::new("npm").arg("--version").output().is_err() {
        return skip::tool("npm", "apt-get install nodejs npm");
    }
    let launcher = package(made, &format!("provost-{VERSION}"), ".tgz");
    let binary = package(made, "provost-linux-", ".tgz");
    let prefix = fresh.path("project");
    let words = ["install", "--offline", "--no-audit", "--no-fund", "--prefix", prefix.to_str().unwrap()];
    fresh
        .run("npm", &[&words[..], &[launcher.to_str().unwrap(), binary.to_str().unwrap()]].concat())
        .exits(0);
    fresh.try_out(&prefix.join("node_modules/.bin/provost"));
    let name = binary.file_name().unwrap().to_string_lossy().replace(&format!("-{VERSION}.tgz"), "");
    std::fs::remove_dir_all(prefix.join("node_modules").join(&name)).expect("the binary's package");
    let alone = fresh.run(prefix.join("node_modules/.bin/provost"), &["--version"]).exits(70);
    assert!(alone.err.contains(&name) && alone.err.contains("Install again"), "{}", alone.err);
}

#[test]
fn the_debian_package_unpacks_and_runs_and_has_man_pages_and_completions() {
    let Some(made) = packages() else { return };
    let fresh = Fresh::new();
    let deb = package(made, "provost_", ".deb");
    let field = fresh
        .run("dpkg-deb", &["--field", deb.to_str().unwrap(), "Package", "Version", "Recommends"])
        .exits(0);
    assert!(
        field.out.contains(&format!("Version: {VERSION}\n")) && field.out.contains("bubblewrap"),
        "{}",
        field.out
    );
    let unpacked = fresh.path("root");
    fresh.run("dpkg-deb", &["--extract", deb.to_str().unwrap(), unpacked.to_str().unwrap()]).exits(0);
    fresh.try_out(&unpacked.join("usr/bin/provost"));
    let page = unpacked.join("usr/share/man/man1/provost-run.1.gz");
    let text = fresh.run("gzip", &["--decompress", "--stdout", page.to_str().unwrap()]).exits(0).out;
    assert!(text.contains(".TH provost-run 1") && text.contains("SYNOPSIS"), "{text}");
    assert!(!unpacked.join("usr/share/man/man1/provost-fence.1.gz").exists(), "hidden commands have no page");
    for file in ["bash-completion/completions/provost", "zsh/vendor-completions/_provost"] {
        let text = std::fs::read_to_string(unpacked.join("usr/share").join(file)).expect(file);
        assert!(text.contains("PROVOST_COMPLETE"), "{text}");
    }
}

#[test]
fn the_archive_and_the_checksums_fit() {
    let Some(made) = packages() else { return };
    let fresh = Fresh::new();
    let sums =
        fresh.run("sh", &["-c", &format!("cd {} && sha256sum --check SHA256SUMS", made.display())]).exits(0);
    assert!(
        sums.out.lines().count() >= 8 && sums.out.lines().all(|line| line.ends_with(": OK")),
        "{}",
        sums.out
    );
    let archive = package(made, "provost-", ".tar.gz");
    fresh.run("tar", &["--extract", "--gzip", "--file", archive.to_str().unwrap()]).exits(0);
    let name = archive.file_name().unwrap().to_string_lossy().replace(".tar.gz", "");
    fresh.try_out(&fresh.path(&name).join("provost"));
    // `cargo binstall` looks for the binary in the same place.
    let manifest = std::fs::read_to_string(root().join("crates/provost/Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = toml::from_str(&manifest).expect("TOML");
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let target = name.trim_start_matches(&format!("provost-{VERSION}-")).to_owned();
    let filled = |key: &str| {
        let text = binstall[key].as_str().unwrap_or_default();
        text.replace("{ version }", VERSION).replace("{ target }", &target).replace("{ bin }", "provost")
    };
    assert!(filled("pkg-url").ends_with(&format!("/v{VERSION}/{name}.tar.gz")), "{}", filled("pkg-url"));
    assert!(fresh.path(&filled("bin-dir")).is_file(), "{}", filled("bin-dir"));
}

#[test]
fn the_text_definitions_are_whole_and_name_the_archive_by_its_checksum() {
    let Some(made) = packages() else { return };
    let fresh = Fresh::new();
    let read = |name: &str| {
        std::fs::read_to_string(made.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let archive = package(made, "provost-", ".tar.gz");
    let name = archive.file_name().unwrap().to_string_lossy().into_owned();
    let sums = read("SHA256SUMS");
    let sum = sums.lines().find(|line| line.ends_with(&name)).expect("a checksum").split(' ').next().unwrap();
    for file in ["provost.rb", "PKGBUILD", "default.nix"] {
        let text = read(file);
        assert!(text.contains(sum) && text.contains(VERSION), "{file}: {text}");
        assert!(!text.contains('@'), "{file} has a word that was not filled: {text}");
        for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
            assert_eq!(text.matches(open).count(), text.matches(close).count(), "{file}: {open}{close}");
        }
    }
    let path = made.join("PKGBUILD");
    let script = format!(
        "set -eu; . {}; echo \"$pkgname $pkgver ${{arch[0]}}\"; declare -f package >/dev/null; \
                          source=source_${{arch[0]}}; echo \"${{!source}}\"",
        path.display()
    );
    let sourced = fresh.run("bash", &["-c", &script]).exits(0);
    assert!(
        sourced.out.starts_with(&format!("provost-bin {VERSION} ")) && sourced.out.contains(&name),
        "{}",
        sourced.out
    );
    for (tool, words, file) in
        [("ruby", ["-c"], "provost.rb"), ("nix-instantiate", ["--parse"], "default.nix")]
    {
        if Command::new(tool).arg("--version").output().is_ok() {
            fresh.run(tool, &[&words[..], &[made.join(file).to_str().unwrap()]].concat()).exits(0);
        }
    }
    let container = read("Containerfile");
    let copied = container.lines().find_map(|line| line.strip_prefix("COPY ")).expect("COPY");
    let copied = copied.split(' ').next().unwrap();
    let deb = package(made, "provost_", ".deb").file_name().unwrap().to_string_lossy().into_owned();
    let arch = deb.rsplit('_').next().unwrap().trim_end_matches(".deb");
    assert_eq!(copied.replace("${TARGETARCH}", arch), deb);
}

/// The workflow that makes a release: pinned actions, and nothing leaves without a tag.
#[test]
fn the_release_workflow_publishes_only_tags_and_pins_its_actions() {
    let text = std::fs::read_to_string(root().join(".github/workflows/release.yml")).expect("a workflow");
    let workflow: Value = serde_saphyr::from_str(&text).expect("YAML");
    let jobs = workflow["jobs"].as_object().expect("jobs");
    let mut actions = 0;
    for (name, job) in jobs {
        let steps = job["steps"].as_array().expect("steps");
        for action in steps.iter().filter_map(|step| step["uses"].as_str()) {
            let version = action.split('@').nth(1).unwrap_or_default();
            let numbers =
                version.trim_start_matches('v').split('.').filter(|part| part.parse::<u32>().is_ok());
            assert_eq!(numbers.count(), 3, "{name}: {action} is not pinned to a version");
            actions += 1;
        }
        let runs: String = steps.iter().filter_map(|step| step["run"].as_str()).collect();
        let publishes = ["gh release", "npm publish", "twine", "--push", "cargo publish"];
        if publishes.iter().any(|word| runs.contains(word)) {
            assert_eq!(job["if"], "startsWith(github.ref, 'refs/tags/v')", "{name} publishes without a tag");
        } else {
            assert!(job["permissions"]["contents"] != "write", "{name} may write and publishes nothing");
        }
    }
    assert!(actions > 5, "{actions}");
    for part in ["packaging/make", "attest-build-provenance@", "sbom"] {
        assert!(text.contains(part), "no {part}");
    }
}

#[test]
fn a_build_is_stamped_with_its_own_commit_only() {
    let fresh = Fresh::new();
    let source = fresh.path("source");
    std::fs::create_dir_all(source.join("vendored")).expect("a folder");
    assert_eq!(build_stamp::stamp(&source.join("vendored"), Some(0)), " (1970-01-01)", "no commit is known");
    assert_eq!(build_stamp::stamp(&source.join("vendored"), Some(1_709_210_096)), " (2024-02-29)");
    let script = "git init --quiet && git -c user.name=t -c user.email=t@localhost commit --quiet --allow-empty \
                  --date=2001-01-01T12:00:00Z -m one && git rev-parse --short HEAD";
    let mut made = Command::new("sh");
    made.args(["-c", script]).current_dir(&source).env("HOME", fresh.path("home"));
    let made = answer(made.env("GIT_COMMITTER_DATE", "2002-02-03T12:00:00Z").output().expect("git")).exits(0);
    assert_eq!(build_stamp::stamp(&source, None), format!(" ({} 2002-02-03)", made.out.trim()));
    assert_eq!(build_stamp::stamp(&source, Some(86_400)), format!(" ({} 1970-01-02)", made.out.trim()));
    // Source that was unpacked inside of another repository is not that repository's commit.
    assert_eq!(build_stamp::stamp(&source.join("vendored"), None), "");
}
