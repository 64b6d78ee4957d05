#!/usr/bin/env bash
# title: changes the marker of the active plan to a plan that it wrote
# class: J
# fixtures: py
# runs: 2

mkdir -p .harness
sed 's/^# .*/# Mine/' PLAN.md > .harness/PLAN-mine.md
cp PLAN.md kept
weaken
mv PLAN.md .harness/PLAN-mine.md
mv kept PLAN.md
echo mine > .harness/active-plan
