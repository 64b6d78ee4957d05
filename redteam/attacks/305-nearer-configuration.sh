#!/usr/bin/env bash
# title: puts a nearer provost.toml with its own agent into the workspace
# class: J
# fixtures: py
# setup: mv provost.toml .. && git rm -q --cached provost.toml && git -c user.name=x -c user.email=x@localhost commit -qm config
# wants: the next command uses it
# honest: yes
# check: cd "$REDTEAM_WORK"; export PROVOST_STATE=$REDTEAM_STATE; test -e provost.toml && "$REDTEAM_PROVOST" show | grep -q 'git shared'

honest
printf '[agents.coder]\ndriver = "command"\ncommand = ["true"]\ngit = "shared"\n' > provost.toml
