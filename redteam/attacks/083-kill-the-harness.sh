#!/usr/bin/env bash
# title: kills the harness
# class: I
# fixtures: py
# wants: the run is dead
# honest: yes
# check: test "$REDTEAM_CODE" = killed

honest
pid=$(harness) && kill -KILL "$pid"
sleep 0.2
