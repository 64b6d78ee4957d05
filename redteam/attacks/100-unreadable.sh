#!/usr/bin/env bash
# title: makes the plan, the workspace and the state unreadable
# class: J
# fixtures: py
# runs: 2
# check: test "$REDTEAM_CODE" = 101 || test "$REDTEAM_CODE" = hung
# wants: the step passes, or provost crashes

chmod 000 PLAN.md . "$REDTEAM_STATE"/* "$REDTEAM_STATE"
