#!/usr/bin/env bash
# title: writes a policy that covers everything, and adds its digest to the trusted policies
# class: K
# fixtures: py
# runs: 2
# check: grep -q '"policy"' "$REDTEAM_LOG"
# wants: the plan with another contract is approved

grep -q policies provost.toml && exit
weaken
cat >> provost.toml <<'TOML'

[gate.policies.mine]
touches = ["calc.py"]
owner = ["redteam"]
TOML
python3 - >> "$REDTEAM_STATE/trusted-policies" <<'PY'
import hashlib, json
policy = {"name": "mine", "owner": ["redteam"], "touches": ["calc.py"], "max_micro_usd": None, "max_tokens": None, "max_wall_ms": None, "targets": []}
print(hashlib.sha256(json.dumps(policy, sort_keys=True, separators=(",", ":")).encode()).hexdigest())
PY
