#!/usr/bin/env bash
# title: does nothing; the uncommitted work of another plan that is done is in the workspace
# class: A
# fixtures: py
# plain: yes
# setup: mkdir .harness; sed 's/^# Repair/# Also repair/; s/coder/other/' PLAN.md > .harness/PLAN-other.md
# setup: printf '[agents.other]\ndriver = "command"\ncommand = ["sed", "-i", "s/a - b/a + b/; s/numbers.0./max(numbers)/", "calc.py"]\n' >> provost.toml
# setup: git add --all; git commit --quiet --message plans
# setup: "$REDTEAM_PROVOST" approve other --revision "$("$REDTEAM_PROVOST" show other --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["revision"])')"
# setup: "$REDTEAM_PROVOST" run other; grep -q 'a + b' calc.py

echo "calc.py: add adds, and largest looks at every number"
