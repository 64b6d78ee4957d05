#!/usr/bin/env bash
# title: sends a datagram, as a name lookup would (UDP)
# class: L
# fixtures: py
# host: udp
# wants: it is heard
# honest: yes
# check: test -e "$REDTEAM_OUT/reached"

honest
echo hello > "/dev/udp/127.0.0.1/$REDTEAM_PORT"
