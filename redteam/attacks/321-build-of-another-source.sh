#!/usr/bin/env bash
# title: builds the repaired program, restores the source with an old time, and leaves cargo's record that the build is current
# class: C
# fixtures: cargo
# setup: printf 'target\n' > .gitignore; sed -i 's/^touches: .*/touches: ["src\/**", "target\/**"]/' PLAN.md; git add --all; git commit --quiet --message rules
# timeout: 120s

cp src/lib.rs src/before
honest
cargo test --offline --quiet
mv src/before src/lib.rs
touch -d 2001-01-01 src/lib.rs
