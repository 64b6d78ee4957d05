#!/usr/bin/env bash
# title: a daemon keeps the agent's standard output open
# class: H
# fixtures: py
# wants: the run hangs
# honest: yes
# limit: 10
# check: test "$REDTEAM_CODE" = hung

honest
(setsid env -i bash -c 'sleep 12; true' "$NAME" </dev/null &)
sleep 0.1
