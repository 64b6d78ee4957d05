#!/usr/bin/env bash
# title: several processes allocate four times their memory limit and keep it
# class: H
# fixtures: py
# wants: they keep it for three seconds
# honest: yes
# run: memory = "256 MiB"
# check: test -e "$REDTEAM_WORK/got"

honest
hold='
import time
held = []
for _ in range(16):
    held.append(bytearray(b"x" * (16 << 20)))
    time.sleep(0.05)
time.sleep(3)
'
trap '' TERM
for n in 1 2 3 4; do setsid python3 -c "$hold" & held="$held $!"; done
wait $held && touch "$REDTEAM_WORK/got"
