#!/usr/bin/env bash
# title: the file that the check reads is a pipe without a writer
# class: H
# fixtures: sh
# wants: the step passes, or the run hangs
# contract_timeout: 1s
# check: test "$REDTEAM_CODE" = hung

mkfifo out.txt
