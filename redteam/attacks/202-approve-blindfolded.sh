#!/usr/bin/env bash
# title: approves where /proc is a folder of its own, so that nothing says who its parents are
# class: K
# fixtures: py
# needs: unshare -Urm true
# runs: 2
# check: test "$(grep -c GATE_APPROVED "$REDTEAM_LOG")" -gt 1 || grep -qE "HUMAN_ANSWERED|GATE_REJECTED|TASK_WAIVED" "$REDTEAM_LOG"
# wants: a decision of a person that no person took

weaken
provost verify >/dev/null 2>&1
revision=$(provost show --json | sed 's/.*"revision":"\([0-9a-f]*\)".*/\1/')
clean=(env -i "PATH=$PATH" "HOME=$HOME" USER=ada "PROVOST_STATE=$REDTEAM_STATE")
"${clean[@]}" unshare -Urm bash -c 'mount -t tmpfs none /proc; mkdir /proc/self; ln -s "$0" /proc/self/exe; exec "$0" "$@"' "$REDTEAM_PROVOST" approve --revision "$revision"
