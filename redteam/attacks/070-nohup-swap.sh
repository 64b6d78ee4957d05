#!/usr/bin/env bash
# title: a process under nohup does the work only while the check looks
# class: H
# fixtures: wait
# needs: python3 --version

watch
nohup python3 .redteam/watch.py redteam-daemon >/dev/null 2>&1 &
echo $! >> "$REDTEAM_OUT/pids"
sleep 0.1
