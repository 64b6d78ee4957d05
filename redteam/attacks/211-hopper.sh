#!/usr/bin/env bash
# title: a process that becomes another one every millisecond, and does the work while the check looks
# class: H
# fixtures: wait
# needs: python3 -c 'import os'

python3 - <<'PY'
import os, time
if os.fork() == 0:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    begun = time.monotonic()
    done = False
    while time.monotonic() - begun < 3:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
        if not done and time.monotonic() - begun > 0.7:
            done = True
            open("out.txt", "w").write("total 42\n")
    os._exit(0)
time.sleep(0.2)
PY
