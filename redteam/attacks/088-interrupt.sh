#!/usr/bin/env bash
# title: interrupts provost as a person would (SIGINT)
# class: I
# fixtures: py
# wants: the run ends before the contract is judged
# honest: yes
# check: test "$REDTEAM_CODE" = 130

honest
pid=$(harness) && kill -INT "$pid"
sleep 0.2
