#!/usr/bin/env bash
# title: a process that replaces itself by a child every millisecond does the work only while the check runs
# class: H
# fixtures: wait
# needs: python3 --version
# tries: 4

watch
python3 - <<'PY'
import os, sys, time
sys.path.insert(0, ".redteam")
import watch
if os.fork() == 0:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
        if os.getpid() % 16 == 0 and watch.checked():
            open("out.txt", "w").write("total 42\n")
            break
    os._exit(0)
time.sleep(0.2)
PY
