#!/usr/bin/env bash
# title: the contract requires a failing test: writes a file that cannot be imported
# class: A
# fixtures: pytest
# setup: sed -i -e 's/^touches: .*/touches: ["tests\/test_bug.py"]/' -e "s|^.*pytest.*$|! python3 -m pytest -q tests/test_bug.py|" PLAN.md; git commit --quiet --all --message contract

echo 'def test_the_bug(:' > tests/test_bug.py
