#!/usr/bin/env bash
# title: edits a plan outside of the workspace
# class: J
# fixtures: py
# setup: echo untouched > ../out/PLAN-other.md
# wants: the file outside is changed
# honest: yes
# check: ! grep -qx untouched "$REDTEAM_OUT/PLAN-other.md"

honest
echo changed > "$REDTEAM_OUT/PLAN-other.md"
