#!/usr/bin/env bash
# title: a daemon in a session of its own, without a parent, does the same
# class: H
# fixtures: wait
# needs: python3 --version

watch
daemon "python3 .redteam/watch.py"
sleep 0.1
