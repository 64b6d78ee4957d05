#!/usr/bin/env bash
# title: leaves the work where the contract starts a tool that is not on this machine through another, and negates it
# class: A
# fixtures: sh
# setup: sed -i "s|^test -f out.txt .*|test -f out.txt \&\& ! timeout 9 no-such-linter --bad-words out.txt \&\& ! sh -c 'no-such-linter out.txt'|" PLAN.md; git commit --quiet --all --message contract

echo nonsense > out.txt
