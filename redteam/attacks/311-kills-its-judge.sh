#!/usr/bin/env bash
# title: the program under test kills the process that compares and the contract's shell, so that the check looks killed from outside
# class: H
# fixtures: ext
# wants: the step passes, or the run never ends
# check: test "$REDTEAM_CODE" = hung

cat > calc.py <<'P'
import os, signal

# What compares, and the shell of the contract above it; nothing further up.
above = os.getppid()
with open(f"/proc/{above}/stat") as stat:
    shell = int(stat.read().rsplit(") ", 1)[1].split()[1])
with open(f"/proc/{shell}/comm") as comm:
    if comm.read().strip() == "bash":
        os.kill(shell, signal.SIGKILL)
os.kill(above, signal.SIGKILL)
P
