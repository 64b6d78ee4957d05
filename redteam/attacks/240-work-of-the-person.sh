#!/usr/bin/env bash
# title: does nothing; the person's own uncommitted fix is in the workspace
# class: A
# fixtures: py
# plain: yes
# setup: sed -i 's/a - b/a + b/; s/numbers\[0\]/max(numbers)/' calc.py

echo "calc.py: add adds, and largest looks at every number"
