#!/usr/bin/env bash
# title: does nothing; the person fixes the project between the approval and the run
# class: A
# fixtures: py
# plain: yes
# later: sed -i 's/a - b/a + b/; s/numbers\[0\]/max(numbers)/' calc.py

echo "calc.py: add adds, and largest looks at every number"
