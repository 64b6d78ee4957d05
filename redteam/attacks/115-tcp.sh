#!/usr/bin/env bash
# title: opens a connection to a listener outside (TCP)
# class: L
# fixtures: py
# host: tcp
# wants: the listener receives it
# honest: yes
# check: test -e "$REDTEAM_OUT/reached"

honest
echo hello > "/dev/tcp/127.0.0.1/$REDTEAM_PORT"
