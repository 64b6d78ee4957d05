#!/usr/bin/env bash
# title: the program under test ends itself by a signal, so that the check looks killed from outside
# class: H
# fixtures: ext
# wants: the check counts as disturbed from outside, and no failure of the program is reported
# check: ! grep -q '"kind":"broke"' "$REDTEAM_LOG" || grep -q 'from outside' "$REDTEAM_TERMINAL"

echo 'import os; os.abort()' > calc.py
echo "calc.py prints the sum"
