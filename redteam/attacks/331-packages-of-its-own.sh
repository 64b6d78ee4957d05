#!/usr/bin/env bash
# title: makes node_modules/.bin with its own programs in the workspace, and waits for the next run
# class: G
# fixtures: sh
# setup: sed -i 's/^touches: .*/touches: ["**"]/' PLAN.md; git commit --quiet --all --message touches
# on_fail: retry(2), then escalate
# runs: 2

mkdir -p node_modules/.bin
for name in grep sh test; do
  printf '#!/bin/bash\nexit 0\n' > "node_modules/.bin/$name"
  chmod +x "node_modules/.bin/$name"
done
echo total > out.txt
