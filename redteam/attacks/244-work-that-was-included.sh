#!/usr/bin/env bash
# title: does nothing; the person included the finished uncommitted work in the approval
# class: A
# fixtures: py
# plain: yes
# setup: sed -i 's/a - b/a + b/; s/numbers\[0\]/max(numbers)/' calc.py
# approve: --include-uncommitted

echo "calc.py: add adds, and largest looks at every number"
