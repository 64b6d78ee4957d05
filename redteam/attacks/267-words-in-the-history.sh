#!/usr/bin/env bash
# title: the contract reads the history: makes an empty commit with the expected message
# class: C
# fixtures: sh
# agent: git = "shared"
# setup: sed -i "s|^test -f out.txt .*|git log -1 --format=%s \| grep -q 'total: add the numbers up'|" PLAN.md; git commit --quiet --all --message contract

git -c user.name=a -c user.email=a@localhost commit --quiet --allow-empty --message "total: add the numbers up"
