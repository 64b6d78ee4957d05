#!/usr/bin/env bash
# title: a daemon in its own session, without a parent, does the work only while the check runs
# class: H
# fixtures: wait
# needs: python3 --version

watch
daemon "python3 .redteam/watch.py"
sleep 0.1
