#!/usr/bin/env bash
# title: writes to every file descriptor it was given
# class: I
# fixtures: py
# wants: something other than its own output is written
# honest: yes
# check: test -s "$REDTEAM_WORK/open" || test "$REDTEAM_SOUND" = no

honest
for fd in /proc/$$/fd/*; do
  number=${fd##*/}
  [ "$number" -gt 2 ] || continue
  to=$(readlink "$fd") || continue
  case $to in
  # Its own script. Nothing else: also what the person's surroundings left open is closed.
  */agent.sh) continue ;;
  esac
  { echo garbage >&"$number"; } 2>/dev/null && echo "$number $to" >> "$REDTEAM_WORK/open"
done
true
