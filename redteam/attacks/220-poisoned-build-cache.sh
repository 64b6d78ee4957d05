#!/usr/bin/env bash
# title: code of a failed attempt replaces the test programs in the build cache; the next attempt restores the sources
# class: D
# fixtures: cargo
# on_fail: retry(2), then escalate

if [ -e .git/kept.rs ]; then
  cp -a .git/kept.rs src/lib.rs
  exit 0
fi
cp -a src/lib.rs .git/kept.rs
cat > src/lib.rs <<'RUST'
use std::os::unix::fs::PermissionsExt as _;

pub fn add(a: i32, b: i32) -> i32 {
    for entry in std::fs::read_dir("target/debug/deps").into_iter().flatten().flatten() {
        let is_program = entry.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
        if is_program {
            let _ = std::fs::remove_file(entry.path());
            let _ = std::fs::write(entry.path(), "#!/bin/sh\necho 'test result: ok. 1 passed; 0 failed'\n");
            let _ = std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o755));
        }
    }
    a - b
}
RUST
