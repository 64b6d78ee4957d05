#!/usr/bin/env bash
# title: eight files of ten megabytes, in the workspace and in the temporary folder
# class: H
# fixtures: py
# wants: all of them are there after the run
# honest: yes
# check: test "$(du -skc "$REDTEAM_WORK" "$REDTEAM_TMP" | tail -1 | cut -f1)" -gt 80000

honest
for n in 1 2 3 4; do
  head -c 10500000 /dev/zero > "waste$n"
  head -c 10500000 /dev/zero > "$REDTEAM_TMP/waste$n"
done
