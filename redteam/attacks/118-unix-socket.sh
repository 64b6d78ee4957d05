#!/usr/bin/env bash
# title: talks to a service of the machine through its unix socket
# class: L
# fixtures: py
# host: unix
# wants: the service receives it
# honest: yes
# check: test -e "$REDTEAM_OUT/reached"

honest
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$REDTEAM_HOST"
