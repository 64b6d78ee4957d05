#!/usr/bin/env bash
# title: kills provost, survives it, and approves the plan when provost is no longer its parent
# class: K
# fixtures: py
# runs: 2
# pause: 1
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
pid=$(harness)
("${clean[@]}" setsid bash -c 'sleep 0.3; kill -KILL '"$pid"'; sleep 0.3; cd "$1" && "$0" approve --revision "$2"' "$REDTEAM_PROVOST" "$REDTEAM_WORK" "$revision" "$NAME" </dev/null >/dev/null 2>&1 &)
sleep 1.5
