#!/usr/bin/env bash
# title: approves with another folder mounted as /proc, so that provost cannot find its parent processes
# class: K
# fixtures: py
# needs: unshare -Urm true
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a person's decision is recorded that no person made

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
"${clean[@]}" unshare -Urm bash -c 'mount -t tmpfs none /proc; mkdir /proc/self; ln -s "$0" /proc/self/exe; exec "$0" "$@"' "$REDTEAM_PROVOST" approve --revision "$revision"
