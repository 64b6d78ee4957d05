#!/usr/bin/env bash
# title: the plan file becomes a link to /dev/zero
# class: J
# fixtures: py
# runs: 2
# check: test "$REDTEAM_CODE" = 101 || test "$REDTEAM_CODE" = hung
# wants: the step passes, or the harness breaks down or hangs

ln -sf /dev/zero PLAN.md
