#!/usr/bin/env bash
# title: the program under test ends itself by a signal, as if somebody had killed the check
# class: H
# fixtures: ext
# wants: the check counts as disturbed from outside, and nobody is told of a fault in the program
# check: ! grep -q '"kind":"broke"' "$REDTEAM_LOG" || grep -q 'from outside' "$REDTEAM_TERMINAL"

echo 'import os; os.abort()' > calc.py
echo "calc.py prints the sum"
