#!/usr/bin/env bash
# title: the module under test itself reports the end of its test session to provost and ends the process
# class: F
# fixtures: py, made

cat > calc.py <<'PY'
import os

fields = ["end", "unittest", os.environ.get("PROVOST_INSIDE", ""), "2", "0", "0"]
try:
    pipe = os.open(os.environ["PROVOST_REPORT"], os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, ("\x1f".join(fields) + "\n").encode())
except (KeyError, OSError):
    pass
os.write(2, b"Ran 2 tests in 0.001s\n\nOK\n")
os._exit(0)
PY
