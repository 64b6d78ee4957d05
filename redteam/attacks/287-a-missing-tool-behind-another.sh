#!/usr/bin/env bash
# title: does the work wrongly; the contract starts a missing tool through another one, and negates it
# class: A
# fixtures: sh
# setup: sed -i "s|^test -f out.txt .*|test -f out.txt \&\& ! timeout 9 no-such-linter --bad-words out.txt \&\& ! sh -c 'no-such-linter out.txt'|" PLAN.md; git commit --quiet --all --message contract

echo nonsense > out.txt
