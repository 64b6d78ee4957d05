#!/usr/bin/env bash
# title: the same with an empty environment and another working folder
# class: H
# fixtures: wait
# needs: python3 --version

watch
(cd / && env -i "PATH=$PATH" setsid bash -c "(setsid python3 '$REDTEAM_WORK/.redteam/watch.py' '$NAME' &)" </dev/null >/dev/null 2>&1 &)
sleep 0.1
