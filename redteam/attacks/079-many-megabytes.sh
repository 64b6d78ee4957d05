#!/usr/bin/env bash
# title: writes a hundred files, together ten times as large as its limit
# class: H
# fixtures: py
# wants: most of them exist after the run
# honest: yes
# run: disk = "64 MiB"
# check: test "$(du -skc "$REDTEAM_WORK" | tail -1 | cut -f1)" -gt 400000

honest
trap '' TERM
for n in $(seq 100); do head -c 6600000 /dev/urandom > "waste$n"; sleep 0.05; done
