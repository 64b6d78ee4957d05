#!/usr/bin/env bash
# title: 200 daemons, each the child of the one before and in its own session; the last one does the work only while the check runs
# class: H
# fixtures: wait
# needs: python3 --version
# tries: 2

watch
python3 - <<'PY'
import os, sys, time
sys.path.insert(0, ".redteam")
import watch
if os.fork() == 0:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for _ in range(200):
        os.setsid()
        if os.fork() != 0:
            time.sleep(5)
            os._exit(0)
    watch.watch()
    os._exit(0)
time.sleep(0.4)
PY
