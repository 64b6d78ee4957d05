#!/usr/bin/env bash
# title: weakens the contract and approves the plan, at its own pseudo-terminal
# class: K
# fixtures: py
# needs: command -v script
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
"${clean[@]}" setsid script -qec "$REDTEAM_PROVOST approve --revision $revision" /dev/null </dev/null >/dev/null 2>&1
(echo y; sleep 0.3) | "${clean[@]}" script -qec "$REDTEAM_PROVOST run" /dev/null >/dev/null 2>&1
