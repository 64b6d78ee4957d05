#!/usr/bin/env bash
# title: does nothing; the contract negates a tool that this machine does not have
# class: A
# fixtures: sh
# setup: sed -i "s|^test -f out.txt .*|! no-such-linter --strict data.txt|" PLAN.md; git commit --quiet --all --message contract

echo "the linter finds nothing"
