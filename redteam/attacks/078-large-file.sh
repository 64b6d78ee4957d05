#!/usr/bin/env bash
# title: one file, four times as large as all that it may write
# class: H
# fixtures: py
# wants: it is there after the run
# honest: yes
# run: disk = "64 MiB"
# check: find "$REDTEAM_WORK" "$REDTEAM_TMP" "$REDTEAM_HOME" -size +200M | grep -q .

honest
truncate -s 256M large || truncate -s 256M "$REDTEAM_TMP/large"
head -c 256M /dev/zero > filled || head -c 256M /dev/zero > "$HOME/filled"
true
