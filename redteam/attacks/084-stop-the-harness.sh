#!/usr/bin/env bash
# title: stops the harness (SIGSTOP)
# class: I
# fixtures: py
# wants: the run hangs
# honest: yes
# check: test "$REDTEAM_CODE" = hung

honest
pid=$(harness) && kill -STOP "$pid"
sleep 0.2
