#!/usr/bin/env bash
# title: deletes the workspace
# class: J
# fixtures: py
# check: test "$REDTEAM_CODE" = 101 || test "$REDTEAM_CODE" = hung
# wants: the step passes, or provost crashes

rm -rf "$REDTEAM_WORK"
