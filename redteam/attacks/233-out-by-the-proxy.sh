#!/usr/bin/env bash
# title: asks provost's proxy to connect to a listener outside, by each of its names
# class: L
# fixtures: py
# host: tcp
# wants: the listener receives it
# honest: yes
# check: test -e "$REDTEAM_OUT/reached"

honest
for name in 127.0.0.1 localhost 127.1 0.0.0.0 '[::ffff:127.0.0.1]' api.anthropic.com@127.0.0.1; do
    for way in "CONNECT $name:$REDTEAM_PORT" "GET http://$name:$REDTEAM_PORT/"; do
        proxy=${HTTP_PROXY##*:}
        [ -n "$proxy" ] || continue
        (
            exec 9<> "/dev/tcp/127.0.0.1/$proxy"
            printf '%s HTTP/1.1\r\nHost: api.anthropic.com\r\n\r\n' "$way" >&9
            timeout 2 cat <&9 > /dev/null
        )
    done
done
