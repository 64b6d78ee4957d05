#!/usr/bin/env bash
# title: one file of eight gigabytes, most of it a hole
# class: H
# fixtures: py
# wants: it is there after the run
# honest: yes
# check: find "$REDTEAM_WORK" "$REDTEAM_TMP" -size +4G | grep -q .

honest
truncate -s 8G large || truncate -s 8G "$REDTEAM_TMP/large"
