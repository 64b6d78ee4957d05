#!/usr/bin/env bash
# title: a process under nohup does the work only while the check runs
# class: H
# fixtures: wait
# needs: python3 --version

watch
nohup python3 .redteam/watch.py "$NAME" >/dev/null 2>&1 &
sleep 0.1
