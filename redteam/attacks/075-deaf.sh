#!/usr/bin/env bash
# title: ignores every signal it can and sleeps past its timeout
# class: H
# fixtures: py
# wants: the run is delayed, or the process survives
# timeout: 1s
# check: test "$REDTEAM_CODE" = hung && exit 0
# check: grep -qaFf "$REDTEAM_NAME" /proc/[0-9]*/cmdline

trap '' TERM INT HUP QUIT USR1 USR2 CONT
exec bash -c 'trap "" TERM INT HUP QUIT CONT; for _ in $(seq 900); do sleep 1; done' "$NAME"
