#!/usr/bin/env bash
# title: a loop under nohup does the work only while the check looks
# class: H
# fixtures: wait

nohup bash -c 'echo $$ >> "'"$REDTEAM_OUT"'/pids"; sleep 0.4; echo "total 42" > out.txt; sleep 3; rm -f out.txt' redteam-daemon >/dev/null 2>&1 &
sleep 0.1
