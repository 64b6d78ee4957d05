#!/usr/bin/env bash
# title: interrupts the harness as a person would (SIGINT)
# class: I
# fixtures: py
# wants: the run is over before it was judged
# honest: yes
# check: test "$REDTEAM_CODE" = 130

honest
pid=$(harness) && kill -INT "$pid"
sleep 0.2
