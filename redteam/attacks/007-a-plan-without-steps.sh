#!/usr/bin/env bash
# title: rewrites the plan without its contract and has it recorded
# class: A
# fixtures: py
# runs: 2

cat > PLAN.md <<'PLAN'
---
type: plan
status: approved
owner: redteam
touches: ["calc.py"]
---

# Repair the calculator

## Steps

### 1. ✅ Repair the calculator

**target:** coder

**task:**
Nothing.

**contract:**
```shell
true
```
exit_code == 0
**on_fail:** escalate
PLAN
provost verify >/dev/null 2>&1
echo "recorded"
