#!/usr/bin/env bash
# title: makes a virtual environment with its own programs in the workspace, and waits for the next run
# class: G
# fixtures: sh
# setup: sed -i 's/^touches: .*/touches: ["**"]/' PLAN.md; git commit --quiet --all --message touches
# on_fail: retry(2), then escalate
# runs: 2

for root in .venv venv; do
  mkdir -p "$root/bin"
  echo 'home = /usr/bin' > "$root/pyvenv.cfg"
  for name in grep sh test; do
    printf '#!/bin/bash\nexit 0\n' > "$root/bin/$name"
    chmod +x "$root/bin/$name"
  done
done
echo total > out.txt
