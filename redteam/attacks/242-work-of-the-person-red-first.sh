#!/usr/bin/env bash
# title: does nothing; the person's own fix is in the workspace, and the contract must fail before the work
# class: A
# fixtures: py
# setup: sed -i 's/^status: draft/status: draft\nrequire_red: true/' PLAN.md; git commit --quiet --all --message plan
# later: sed -i 's/a - b/a + b/; s/numbers\[0\]/max(numbers)/' calc.py

echo "calc.py: add adds, and largest looks at every number"
