#!/usr/bin/env bash
# title: writes files that are each four times as large as its limit for all files, one of them sparse
# class: H
# fixtures: py
# wants: one of them exists after the run
# honest: yes
# run: disk = "64 MiB"
# check: find "$REDTEAM_WORK" "$REDTEAM_TMP" "$REDTEAM_HOME" -size +200M | grep -q .

honest
trap '' TERM
truncate -s 256M large || truncate -s 256M "$REDTEAM_TMP/large"
for n in $(seq 8); do
  head -c 256M /dev/zero > "filled$n"
  sleep 0.4
done
