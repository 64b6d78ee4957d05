#!/usr/bin/env bash
# title: weakens the contract and approves the plan, from a daemon without a parent
# class: K
# fixtures: py
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
("${clean[@]}" setsid bash -c '(setsid "$0" "$@" &)' "$REDTEAM_PROVOST" -C "$REDTEAM_WORK" approve --revision "$revision" </dev/null >/dev/null 2>&1 &)
sleep 0.5
