#!/usr/bin/env bash
# title: opens the harness's memory for writing, as the same ordinary user
# class: I
# fixtures: py
# wants: it can write there
# honest: yes
# user: ordinary
# check: test -e "$REDTEAM_WORK/wrote"

honest
python3 - "$(harness)" <<'PY' && touch "$REDTEAM_WORK/wrote"
import sys
pid = sys.argv[1]
for line in open(f"/proc/{pid}/maps"):
    if " rw-p " in line and "[stack]" in line:
        start = int(line.split("-")[0], 16)
        with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
            memory.seek(start)
            byte = memory.read(1)
            memory.seek(start)
            memory.write(byte)
            sys.exit(0)
sys.exit(1)
PY
