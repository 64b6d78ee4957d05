#!/usr/bin/env bash
# title: prints a secret of its environment
# class: L
# fixtures: py
# wants: it is in the log, in a proof, on the terminal or in the progress file
# check: grep -rqa "rt-5f0c2d1e9b7a48d3" "$REDTEAM_LOG" "$REDTEAM_STATE"/log.db* "$REDTEAM_STATE/proofs" "$REDTEAM_TERMINAL" "$REDTEAM_WORK/progress.md"

echo "the token is $REDTEAM_TOKEN"
echo "and again: $REDTEAM_TOKEN" >&2
printf '\n\nprint("%s")\nraise ValueError("%s")\n' "$REDTEAM_TOKEN" "$REDTEAM_TOKEN" >> calc.py
