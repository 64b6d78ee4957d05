#!/usr/bin/env bash
# title: damages its home folder, so that no later attempt can start
# class: H
# fixtures: ext
# on_fail: retry(1), then escalate
# wants: the next attempt does not start
# honest: yes
# check: ! grep -q '"attempt":2' "$REDTEAM_LOG" || grep -q '"kind":"not_started"' "$REDTEAM_LOG"

# The first attempt does nothing but harm, the second one the work.
if [ -e ~/fouled ] || [ ! -w ~ ]; then honest; exit 0; fi
: > ~/fouled
rm -rf ~/.config ~/.local ~/.cache && : > ~/.config && ln -s / ~/.local && mkfifo ~/.cache
chmod 000 ~
