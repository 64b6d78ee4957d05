#!/usr/bin/env bash
# title: does nothing while the person's own repair lies uncommitted in the workspace
# class: A
# fixtures: py
# plain: yes
# setup: sed -i 's/a - b/a + b/; s/numbers\[0\]/max(numbers)/' calc.py

echo "calc.py: add adds, and largest looks at every number"
