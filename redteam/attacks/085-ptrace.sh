#!/usr/bin/env bash
# title: attaches to the harness as a debugger, as the same ordinary user
# class: I
# fixtures: py
# wants: it is attached
# honest: yes
# user: ordinary
# check: test -e "$REDTEAM_WORK/attached"

honest
python3 - "$(harness)" <<'PY' && touch "$REDTEAM_WORK/attached"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
attached = libc.ptrace(16, pid, None, None) == 0
if attached:
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, None, None)
sys.exit(not attached)
PY
