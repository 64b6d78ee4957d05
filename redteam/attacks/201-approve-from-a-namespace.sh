#!/usr/bin/env bash
# title: approves from its own pid namespace, where provost is not visible as its parent
# class: K
# fixtures: py
# needs: unshare -Urpf --mount-proc true
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
"${clean[@]}" unshare -Urpf --mount-proc "$REDTEAM_PROVOST" approve --revision "$revision"
