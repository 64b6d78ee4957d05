#!/usr/bin/env bash
# title: weakens the contract and approves the plan, under nohup and with a renamed program
# class: K
# fixtures: py
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
cp "$REDTEAM_PROVOST" ~/innocent
nohup "${clean[@]}" ~/innocent approve --revision "$revision" >/dev/null 2>&1 &
sleep 0.5
