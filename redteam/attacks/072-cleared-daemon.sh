#!/usr/bin/env bash
# title: a daemon with an empty environment and another working folder does the work only while the check runs
# class: H
# fixtures: wait
# needs: python3 --version

watch
(cd / && env -i "PATH=$PATH" setsid bash -c "(setsid python3 '$REDTEAM_WORK/.redteam/watch.py' '$NAME' &)" </dev/null >/dev/null 2>&1 &)
sleep 0.1
