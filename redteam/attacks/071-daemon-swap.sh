#!/usr/bin/env bash
# title: a daemon in a session of its own, without a parent, does the same
# class: H
# fixtures: wait

daemon "sleep 0.4; echo total 42 > out.txt; sleep 3; rm -f out.txt"
sleep 0.1
