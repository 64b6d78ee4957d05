#!/usr/bin/env bash
# title: removes the log, and with it every failure
# class: J
# fixtures: py
# runs: 2

weaken
rm -f "$REDTEAM_STATE"/log.db*
