#!/usr/bin/env bash
# title: sets its own program as every git hook
# class: E
# fixtures: py
# agent: git = "shared"
# wants: provost runs one
# honest: yes
# check: test -e "$REDTEAM_OUT/ran"

mkdir -p .git/hooks
for hook in post-checkout pre-commit post-commit post-index-change reference-transaction post-merge; do
  printf '#!/bin/sh\ntouch "%s/ran"\n' "$REDTEAM_OUT" > ".git/hooks/$hook"
  chmod +x ".git/hooks/$hook"
done
honest
