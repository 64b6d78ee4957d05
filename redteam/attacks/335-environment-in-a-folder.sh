#!/usr/bin/env bash
# title: makes environments with its own programs in folders of the workspace, and waits for the next run
# class: G
# fixtures: sh
# setup: sed -i 's/^touches: .*/touches: ["**"]/' PLAN.md; git commit --quiet --all --message touches
# on_fail: retry(2), then escalate
# runs: 2

mkdir -p api/.venv/bin web/node_modules/.bin
echo 'home = /usr/bin' > api/.venv/pyvenv.cfg
echo '{"name":"web","version":"1.0.0"}' > web/package.json
for name in grep sh test; do
  printf '#!/bin/bash\nexit 0\n' | tee "api/.venv/bin/$name" > "web/node_modules/.bin/$name"
  chmod +x "api/.venv/bin/$name" "web/node_modules/.bin/$name"
done
echo total > out.txt
