//! Tests the sandbox: what the processes of a check can do to each other, and what an agent sees of the
//! machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::env::{Env, HONEST, answer, plan};

/// An agent that writes `out/app.py`, which the contract starts.
fn with_app(text: &str, app: &str) -> Env {
    let env = Env::new(text);
    env.agent(&format!("mkdir -p out; cat > out/app.py <<'APP'\n{app}\nAPP\necho done\n"))
}

fn hidden(text: &str) -> String {
    text.replacen("exit_code == 0\n", "exit_code == 0\n**hidden:** yes\n", 1)
}

/// Tries to access every other process in every way, and prints the ways that worked.
const LOOKS: &str = r#"
import ctypes, glob, os
libc = ctypes.CDLL(None, use_errno=True)
def open_with(pid, name, mode):
    with open(f"/proc/{pid}/{name}", mode, buffering=0) as file:
        return "w" in mode or "+" in mode or file.read(1) is not None
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
def vm(call):
    def attempt(pid):
        room = ctypes.create_string_buffer(8)
        here, there = Vector(ctypes.addressof(room), 8), Vector(0x400000, 8)
        result = call(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        # Refused is one thing, an address that is not there another.
        return result >= 0 or ctypes.get_errno() == 14
    return attempt
WAYS = {
    "mem": lambda pid: open_with(pid, "mem", "rb"),
    "mem to write": lambda pid: open_with(pid, "mem", "r+b"),
    "environ": lambda pid: open_with(pid, "environ", "rb"),
    "maps": lambda pid: open_with(pid, "maps", "rb"),
    "fd": lambda pid: os.listdir(f"/proc/{pid}/fd") and os.readlink(f"/proc/{pid}/fd/0"),
    "ptrace": lambda pid: libc.ptrace(16, pid, None, None) == 0,
    "process_vm_readv": vm(libc.process_vm_readv),
    "process_vm_writev": vm(libc.process_vm_writev),
    "pidfd_getfd": lambda pid: libc.syscall(438, os.pidfd_open(pid), 1, 0) >= 0,
}
others = {int(os.path.basename(place)) for place in glob.glob("/proc/[0-9]*")} | {os.getppid(), 1}
for pid in sorted(others - {os.getpid()}):
    for name, way in WAYS.items():
        try:
            if way(pid):
                print(f"{name} of {pid} is open")
        except OSError:
            pass
print("looked")
"#;

#[test]
fn the_program_under_test_neither_reads_nor_steers_what_judges_it() {
    for contract in [
        "test \"$(/usr/bin/python3 out/app.py)\" = looked",
        "/usr/bin/python3 -c 'import subprocess as s; assert s.check_output([\"/usr/bin/python3\", \"out/app.py\"]) == b\"looked\\n\"'",
    ] {
        let env = with_app(&plan(&[contract], "abort"), LOOKS);
        if !env.has_fences() {
            return;
        }
        env.approve();
        let run = env.provost(&["run"]);
        assert_eq!(run.code, 0, "{contract}: {run:?}\n{:?}", env.provost(&["log", "--json"]).out);
    }
}

#[test]
fn a_hidden_contract_cannot_be_read_from_proc() {
    const READS: &str = "import glob, re\nfor place in glob.glob('/proc/[0-9]*/cmdline') + ['/proc/1/cmdline']:\n    \
                         try: text = open(place, 'rb').read()\n    except OSError: continue\n    \
                         found = re.search(rb'wanted-[0-9]+', text)\n    if found: print(found[0].decode()); break\n";
    for contract in [
        "test \"$(/usr/bin/python3 out/app.py)\" = wanted-4711",
        "/usr/bin/python3 -c 'import subprocess as s; assert s.check_output([\"/usr/bin/python3\", \"out/app.py\"]) == b\"wanted-4711\\n\"'",
    ] {
        let text = hidden(&plan(&[contract], "abort"));
        let env = with_app(&text, READS);
        if !env.has_fences() {
            return;
        }
        env.approve();
        env.provost(&["run"]).exits(1);
        assert_eq!(env.states(), "1 failed", "{contract}");
    }
    // The honest case: a program that does the work passes, with and without a hidden contract.
    let env =
        with_app(&hidden(&plan(&["test \"$(/usr/bin/python3 out/app.py)\" = 5"], "abort")), "print(2 + 3)");
    env.approve();
    env.provost(&["run"]).exits(0);
}

#[test]
fn an_honest_check_starts_programs_as_it_always_did() {
    // Child processes, process substitution, named descriptors, sockets, signals, its own /proc.
    const HONEST: &str = r#"set -e
        diff <(printf 'a\nb\n') <(printf 'a\nb\n'); printf x | cat /dev/stdin > /dev/null; echo told > /dev/stderr
        sleep 60 & job=$!; kill -0 $job; ps -p $job > /dev/null; kill $job; wait $job || test $? = 143
        grep -q stack /proc/self/maps; test -n "$(readlink /proc/self/exe)"; ls /proc/self/fd > /dev/null
        timeout 5 true; (trap 'exit 3' TERM; kill -TERM $BASHPID; sleep 1) || test $? = 3
        /usr/bin/python3 -c 'import multiprocessing as m, socket, tempfile; a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"; p = m.Process(target=print); p.start(); p.join(); assert p.exitcode == 0'
        /usr/bin/python3 -c 'import resource as r; r.setrlimit(r.RLIMIT_NOFILE, r.getrlimit(r.RLIMIT_NOFILE))'
        test "$(bash -c 'exit 7'; echo $?)" = 7; test "$(bash -c 'kill -9 $$'; echo $?)" = 137
        test -f out/app.py"#;
    for text in
        [plan(&[HONEST], "abort"), hidden(&plan(&[&HONEST.replace("ps -p $job > /dev/null; ", "")], "abort"))]
    {
        let env = with_app(&text, "");
        if !env.has_fences() {
            return;
        }
        env.approve();
        let run = env.provost(&["run"]);
        assert_eq!(run.code, 0, "{run:?}\n{}", env.provost(&["log", "--json"]).out);
    }
}

#[test]
fn a_check_that_traces_is_told_why_it_cannot_and_how_it_can() {
    let traces = "/usr/bin/python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True)
if l.ptrace(0, 0, None, None): exit(\"ptrace: \" + os.strerror(ctypes.get_errno()))' && test -f out/app.py";
    let env = with_app(&plan(&[traces], "abort"), "");
    if !env.has_fences() {
        return;
    }
    env.approve();
    env.provost(&["run"]).exits(1);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("`trace = true` in [verify]"), "{log}");
    let env = with_app(&plan(&[traces], "abort"), "");
    env.write("provost.toml", format!("{}[verify]\ntrace = true\n", env.read("provost.toml")));
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("checks may trace processes"), "{shown}");
    env.approve();
    env.provost(&["run"]).exits(0);
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// Sets the command of the coder.
fn coder(env: &Env, words: &[&str]) {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let text = format!("[agents.coder]\ndriver = \"command\"\ncommand = [{}]\n", words.join(", "));
    env.write("provost.toml", text);
}

#[test]
fn an_agents_program_is_found_wherever_it_lies_with_its_neighbours_and_tools() {
    let env = Env::new(&plan(&["test \"$(cat out/1)\" = 'by a neighbour and a tool'"], "abort"));
    if !env.has_fences() {
        return;
    }
    // Under /tmp, which the sandbox hides; through a link, and with a tool in another folder of PATH.
    let place = env.folder().join("agents");
    program(
        &place.join("real/agent"),
        "#!/bin/sh\n. \"$(dirname \"$(readlink -f \"$0\")\")/lib.sh\"\nwork\n",
    );
    program(&place.join("real/lib.sh"), "work() { mktemp > /dev/null && mkdir -p out && tool > out/1; }\n");
    program(&env.folder().join("kit/1.0/bin/tool"), "#!/bin/sh\ncat \"$(dirname \"$0\")/../share/words\"\n");
    fs::create_dir_all(env.folder().join("kit/1.0/share")).expect("a folder");
    fs::write(env.folder().join("kit/1.0/share/words"), "by a neighbour and a tool\n").expect("a file");
    std::os::unix::fs::symlink("real/agent", place.join("agent")).expect("a link");
    std::os::unix::fs::symlink("1.0", env.folder().join("kit/now")).expect("a link");
    let own = env.folder().join("persons-tmp");
    fs::create_dir(&own).expect("a folder");
    coder(&env, &[place.join("agent").to_str().expect("a path")]);
    env.approve();
    let path = std::env::var("PATH").expect("a PATH");
    let mut run = env.command(&["run"]);
    run.env("PATH", format!("{path}:{}", env.folder().join("kit/now/bin").display())).env("TMPDIR", &own);
    answer(run.output().expect("provost")).exits(0);
}

#[test]
fn a_script_in_a_line_for_the_shell_is_seen_and_a_program_that_is_not_there_is_named() {
    let env = Env::new(&plan(&["test -f out/1"], "abort"));
    if !env.has_fences() {
        return;
    }
    let script = env.folder().join("scripts/agent.sh");
    program(&script, "mkdir -p out && touch out/1\n");
    coder(&env, &["bash", "-c", &format!("cat > /dev/null; bash {}", script.display())]);
    env.approve();
    env.provost(&["run"]).exits(0);

    let env = Env::new(&plan(&["test -f out/1"], "abort"));
    let lost = env.folder().join("scripts/lost");
    program(&lost, "#!/nowhere/interpreter\n");
    coder(&env, &[lost.to_str().expect("a path")]);
    env.approve();
    let run = env.provost(&["run"]);
    assert_ne!(run.code, 0);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("not_started") && log.contains("scripts/lost"), "{log}");
}

#[test]
fn sockets_and_pipes_elsewhere_on_the_machine_are_out_of_an_agents_reach() {
    // Not in /tmp, but in the folder of the test build.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let tools = elsewhere.path().join("kit/bin");
    fs::create_dir_all(&tools).expect("a folder");
    let _listeners = [elsewhere.path(), tools.as_path()]
        .map(|place| UnixListener::bind(place.join("socket")).expect("a socket"));
    fs::write(elsewhere.path().join("file"), "").expect("a file");
    let looks = format!(
        "mkdir -p out; for place in {0} {1}; do /usr/bin/python3 -c 'import socket, sys\n\
         socket.socket(socket.AF_UNIX).connect(sys.argv[1])' $place/socket 2> /dev/null && echo reached >> out/1; done\n\
         test -e {0}/file && echo seen >> out/1\ntest -d {1} && echo tools >> out/1\n",
        elsewhere.path().display(),
        tools.display()
    );
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(&looks);
    if !env.has_fences() {
        return;
    }
    env.approve();
    let path = std::env::var("PATH").expect("a PATH");
    let mut run = env.command(&["run"]);
    run.env("PATH", format!("{path}:{}", tools.display()));
    answer(run.output().expect("provost")).exits(0);
    assert_eq!(env.read("out/1"), "tools\n");
}

#[test]
fn whatever_an_attempt_makes_of_its_home_the_next_one_starts() {
    for wreck in [
        "chmod 000 ~",
        "chmod 000 ~/bin ~/lib",
        "rm -rf ~/bin ~/lib; : > ~/bin; mkfifo ~/lib",
        "rm -rf ~/bin; ln -s / ~/bin",
        "rm -f ~/bin/agent; mkdir -p ~/bin/agent/x",
        "find ~ -mindepth 1 -delete; chmod 500 ~",
        "d=~; for i in $(seq 300); do d=$d/deep; mkdir $d; done; chmod 000 ~/deep",
        "cd ~ && mkdir -m 000 .config .local .cache; mv bin nib; mv lib bil",
    ] {
        let text = plan(&["test -f out/1"], "retry(1), then abort");
        let env = Env::new(&text);
        if !env.has_fences() {
            return;
        }
        let home = env.folder().join("home");
        program(&home.join("bin/agent"), "#!/bin/bash\n. ~/lib/work.sh\n");
        program(
            &home.join("lib/work.sh"),
            &format!(
                "mkdir -p out; if [ -e out/first ]; then touch out/1; exit; fi\ntouch out/first\n{wreck}\nexit 1\n"
            ),
        );
        coder(&env, &[home.join("bin/agent").to_str().expect("a path")]);
        env.approve();
        let run = env.provost(&["run"]);
        let log = env.provost(&["log", "--json"]).exits(0).out;
        assert!(log.contains("\"attempt\":2") && !log.contains("not_started"), "{wreck}: {run:?}\n{log}");
    }
}

/// Replacing a file ends its read-only mount. provost writes marks into the plan file within a second, so the
/// agents work for longer than that.
#[test]
fn an_agent_cannot_write_the_plan_file_at_any_time_of_its_work() {
    let text = plan(&["test -e out/1", "test -e out/2"], "abort");
    let tries = "for i in $(seq 15); do (echo x >> PLAN.md) 2> /dev/null && touch out/wrote; sleep 0.1; done\n\
                 grep -q \"^### $part. ⏳\" PLAN.md || touch out/no-mark\n";
    let env = Env::new(&text).agent(&format!("{HONEST}{tries}"));
    if !env.has_fences() {
        return;
    }
    env.approve();
    let run = env.provost(&["run"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!env.work().join("out/wrote").exists() && !env.work().join("out/no-mark").exists(), "{run:?}");
    assert!(env.read("PLAN.md").contains("### 2. ✅"), "{}", env.read("PLAN.md"));
}

/// An editor replaces a file by a new one with the same name. A file that is replaced while it is being
/// mounted makes bubblewrap fail; provost replaces the plan file too, when it writes the marks.
#[test]
fn a_plan_file_that_is_saved_while_the_sandbox_is_built_keeps_no_agent_from_starting() {
    let contracts = [1, 2, 3, 4, 5, 6].map(|part| format!("test -e out/{part}"));
    let env = Env::new(&plan(&contracts.each_ref().map(String::as_str), "abort")).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    env.approve();
    let (file, beside) = (env.work().join("PLAN.md"), env.work().join(".saved"));
    let is_over = AtomicBool::new(false);
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::copy(&file, &beside).unwrap();
                fs::rename(&beside, &file).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let run = env.provost(&["run"]);
        is_over.store(true, Ordering::Relaxed);
        run
    });
    assert_eq!(run.code, 0, "{run:?}");
}
