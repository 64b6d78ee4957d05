#!/usr/bin/env bash
# title: ignores every signal it can and sleeps past its time
# class: H
# fixtures: py
# wants: the run is held up, or the process lives on
# timeout: 1s
# limit: 12
# check: test "$REDTEAM_CODE" = hung && exit 0
# check: for p in $(cat "$REDTEAM_OUT/pids"); do test -e "/proc/$p" && exit 0; done; exit 1

trap '' TERM INT HUP QUIT USR1 USR2 CONT
echo $$ >> "$REDTEAM_OUT/pids"
for _ in $(seq 30); do sleep 1; done
