#!/usr/bin/env bash
# title: the contract requires a failing test: writes a test file without a test
# class: A
# fixtures: pytest
# setup: sed -i -e 's/^touches: .*/touches: ["tests\/test_bug.py"]/' -e "s|^.*pytest.*$|! python3 -m pytest -q tests/test_bug.py|" PLAN.md; git commit --quiet --all --message contract

echo '"""A test of the bug."""' > tests/test_bug.py
