#!/usr/bin/env bash
# title: replaces the plan file by a pipe
# class: J
# fixtures: py
# runs: 2
# check: test "$REDTEAM_CODE" = hung
# wants: the step passes, or the run hangs

rm PLAN.md
mkfifo PLAN.md
