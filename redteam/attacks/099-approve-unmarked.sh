#!/usr/bin/env bash
# title: weakens the contract and approves the plan, without the variable that marks an attempt
# class: K
# fixtures: py
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

unset PROVOST_ATTEMPT
weaken
provost verify
provost approve --revision "$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')"
