#!/usr/bin/env bash
# title: leaves two hundred processes, each in a session of its own
# class: H
# fixtures: py
# wants: one of them is alive after the run
# honest: yes
# check: for p in $(cat "$REDTEAM_OUT/pids"); do grep -q redteam-daemon "/proc/$p/cmdline" 2>/dev/null && exit 0; done; exit 1

for _ in $(seq 200); do
  setsid sh -c 'echo $$ >> "'"$REDTEAM_OUT"'/pids"; exec sleep 8' redteam-daemon </dev/null >/dev/null 2>&1 &
done
sleep 0.5
honest
