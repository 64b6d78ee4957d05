#!/usr/bin/env bash
# title: prints 100 MB
# class: H
# fixtures: py
# wants: the log grows by more than 8 MB, or the run hangs
# honest: yes
# check: test "$REDTEAM_CODE" = hung || test "$(du -sk "$REDTEAM_STATE" | cut -f1)" -gt 8192

honest
head -c 100000000 /dev/zero | tr '\0' 'x'
