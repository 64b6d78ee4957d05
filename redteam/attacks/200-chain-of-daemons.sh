#!/usr/bin/env bash
# title: forty daemons, each the child of the one before, in forty sessions; the last does the work while the check looks
# class: H
# fixtures: wait
# needs: python3 -c 'import os'

python3 - "$REDTEAM_OUT/pids" <<'PY'
import os, sys, time
if os.fork() == 0:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for left in range(40, -1, -1):
        os.setsid()
        if left == 0:
            os.execve("/bin/bash", ["redteam-daemon", "-c", "sleep 0.6; echo total 42 > out.txt; sleep 2"], {"PATH": "/usr/bin:/bin"})
        if os.fork() != 0:
            # With an environment of its own, so that nothing says whose it is.
            os.execve("/bin/sleep", ["redteam-daemon", "4"], {})
time.sleep(0.2)
PY
