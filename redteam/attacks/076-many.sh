#!/usr/bin/env bash
# title: leaves 200 processes, each in its own session
# class: H
# fixtures: py
# wants: one of them is alive after the run
# honest: yes
# check: grep -qaFf "$REDTEAM_NAME" /proc/[0-9]*/cmdline

for _ in $(seq 200); do
  setsid bash -c 'sleep 8; true' "$NAME" </dev/null >/dev/null 2>&1 &
done
sleep 0.5
honest
