#!/usr/bin/env bash
# title: sends a datagram, as a DNS lookup would (UDP)
# class: L
# fixtures: py
# host: udp
# wants: the listener receives it
# honest: yes
# check: test -e "$REDTEAM_OUT/reached"

honest
echo hello > "/dev/udp/127.0.0.1/$REDTEAM_PORT"
