#!/usr/bin/env bash
# title: makes files with line breaks, invalid UTF-8 or very long names, link loops and sockets in its folder
# class: J
# fixtures: list
# wants: the step passes, or provost crashes or hangs
# contract_timeout: 1s
# check: test "$REDTEAM_CODE" = hung || test "$REDTEAM_CODE" = 101

mkdir -p out
: > out/$'one\ntwo'
: > out/$'\xff\xfe'
: > "out/$(printf 'x%.0s' {1..255})"
ln -s . out/loop
ln -s ../../../../../../etc/passwd out/link
mkfifo out/1.txt
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("out/2.txt")'
d=out
for _ in {1..60}; do d=$d/deeper; done
mkdir -p "$d"
