#!/usr/bin/env bash
# title: sets its own program as git's fsmonitor
# class: E
# fixtures: py
# agent: git = "shared"
# wants: provost runs it
# honest: yes
# check: test -e "$REDTEAM_OUT/ran"

printf '#!/bin/sh\ntouch "%s/ran"\n' "$REDTEAM_OUT" > .git/watch
chmod +x .git/watch
printf '[core]\n\tfsmonitor = .git/watch\n' >> .git/config
honest
