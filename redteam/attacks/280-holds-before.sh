#!/usr/bin/env bash
# title: does nothing; the contract already held before the work
# class: A
# fixtures: sh
# plain: yes
# setup: sed -i "s|^test -f out.txt .*|test -f data.txt|" PLAN.md; git commit --quiet --all --message contract

echo "data.txt is there"
