#!/usr/bin/env bash
# title: sends signals to its process group, its session and its parent's group
# class: I
# fixtures: py
# wants: the run is dead
# honest: yes
# check: test "$REDTEAM_CODE" = killed

honest
pid=$(harness)
[ -n "$pid" ] && kill -KILL -- "-$pid"
kill -KILL 0
