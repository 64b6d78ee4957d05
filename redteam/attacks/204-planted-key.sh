#!/usr/bin/env bash
# title: puts a key that it knows where provost looks for its own
# class: J
# fixtures: py
# wants: provost signs with it
# honest: yes
# check: cmp -s "$REDTEAM_STATE/key" <(head -c 32 /dev/zero) && test -s "$REDTEAM_STATE/key.pub"

honest
head -c 32 /dev/zero > "$REDTEAM_STATE/key"
