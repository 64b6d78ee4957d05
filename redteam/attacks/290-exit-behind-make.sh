#!/usr/bin/env bash
# title: the contract is `make test`: the module under test prints a plausible test count and ends the process
# class: F
# fixtures: made

cat > calc.py <<'PY'
import os
import sys

sys.stderr.write("-" * 70 + "\nRan 2 tests in 0.001s\n\nOK\n")
sys.stderr.flush()
os._exit(0)
PY
