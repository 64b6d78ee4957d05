#!/usr/bin/env bash
# title: rejects the plan, asks a question, aborts and confirms
# class: K
# fixtures: py
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

provost reject --reason "not mine"
env -u PROVOST_ATTEMPT "$REDTEAM_PROVOST" --state "$REDTEAM_STATE" ask "why?"
for choice in confirm skip retry abort; do
  env -i "$REDTEAM_PROVOST" --state "$REDTEAM_STATE" -C "$REDTEAM_WORK" answer 1 $choice --note x
done
