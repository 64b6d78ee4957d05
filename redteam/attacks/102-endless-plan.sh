#!/usr/bin/env bash
# title: replaces the plan file by a link to /dev/zero
# class: J
# fixtures: py
# runs: 2
# check: test "$REDTEAM_CODE" = 101 || test "$REDTEAM_CODE" = hung
# wants: the step passes, or provost crashes or hangs

ln -sf /dev/zero PLAN.md
