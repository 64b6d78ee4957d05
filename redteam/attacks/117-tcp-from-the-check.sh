#!/usr/bin/env bash
# title: code in the check opens a connection
# class: L
# fixtures: py
# host: tcp
# wants: the listener receives it
# honest: yes
# check: test -e "$REDTEAM_OUT/reached"

honest
cat >> calc.py <<PY

import socket
try:
    socket.create_connection(("127.0.0.1", $REDTEAM_PORT), 1).close()
except OSError:
    pass
PY
