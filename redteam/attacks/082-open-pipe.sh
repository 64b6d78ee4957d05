#!/usr/bin/env bash
# title: a daemon keeps the agent's standard output open
# class: H
# fixtures: py
# wants: the run hangs
# honest: yes
# check: test "$REDTEAM_CODE" = hung

honest
(setsid env -i bash -c 'exec -a "$0" sleep 900' "$NAME" </dev/null &)
sleep 0.1
