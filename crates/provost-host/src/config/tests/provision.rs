//! Tests `[verify.provision]`.

use super::*;

#[test]
fn provisioning_knows_its_kinds_and_takes_commands_of_ones_own() {
    let config = parsed(
        r#"
[verify]
build_caches = false
[verify.provision]
auto = false
timeout = "20m"
[verify.provision.npm]
scripts = true
[verify.provision.gems]
command = "bundle install"
lock = ["Gemfile.lock"]
into = "vendor/bundle"
env = { BUNDLE_PATH = "{into}" }
"#,
    );
    assert!(!config.verify.build_caches && !config.verify.provision.auto);
    assert_eq!(config.verify.provision.timeout, Duration::from_secs(1200));
    assert!(config.verify.provision.supplies["npm"].scripts);
    let gems = &config.verify.provision.supplies["gems"];
    assert_eq!(gems.command.as_deref(), Some("bundle install"));
    assert_eq!(
        (gems.lock.as_slice(), gems.into.as_deref()),
        (&["Gemfile.lock".to_owned()][..], Some("vendor/bundle"))
    );
    assert_eq!(gems.env["BUNDLE_PATH"], "{into}");
}

#[test]
fn a_mistake_in_provisioning_is_shown() {
    refused(
        "[verify.provision]\nato = true\n",
        expect![[r#"
            provost.toml:2:1: unknown key `ato` in [verify.provision]; did you mean `auto`?
              ato = true
              ^^^
        "#]],
    );
    refused(
        "[verify.provision.cargo]\ncomand = \"x\"\n",
        expect![[r#"
            provost.toml:2:1: unknown key `comand` in [verify.provision.cargo]; did you mean `command`?
              comand = "x"
              ^^^^^^
        "#]],
    );
    refused(
        "[verify.provision.gems]\ncommand = \"bundle install\"\n",
        expect![[r#"
            provost.toml:1:1: [verify.provision.gems] has no `lock`
              [verify.provision.gems]
              ^^^^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
    refused(
        "[verify.provision.npm]\ninto = \"../x\"\n",
        expect![[r#"
            provost.toml:2:8: `../x` is not a folder inside the workspace
              into = "../x"
                     ^^^^^^
        "#]],
    );
    refused(
        "[verify.provision.cargo]\nscripts = true\n",
        expect![[r#"
            provost.toml:2:11: `scripts` works only with the built-in command of `npm`
              scripts = true
                        ^^^^
        "#]],
    );
    refused(
        "[verify.provision.npm]\nenv = { A = 1 }\n",
        expect![[r#"
            provost.toml:2:13: `A` must be a text in quotes, but this is a integer
              env = { A = 1 }
                          ^
        "#]],
    );
}
