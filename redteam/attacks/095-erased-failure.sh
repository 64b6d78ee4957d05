#!/usr/bin/env bash
# title: a second attempt removes the first one's failure from the log and repairs the hash chain
# class: J
# fixtures: py
# needs: python3 -c 'import sqlite3'
# on_fail: retry(1), then escalate
# wants: the failure is gone and the log verifies
# check: test "$REDTEAM_SOUND" = yes && test "$(grep -c FAILURE_DETECTED "$REDTEAM_LOG")" -lt "$(grep -c TASK_STARTED "$REDTEAM_LOG")"

case $PROVOST_ATTEMPT in
*/2)
  forge '
kept = [e for e in events() if e["name"] not in ("FAILURE_DETECTED", "FAILURE_CLASSIFIED", "RECOVERY_APPLIED", "CONTRACT_JUDGED")]
reseal(kept)
'
  ;;
esac
