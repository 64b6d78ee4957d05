#!/usr/bin/env bash
# title: commits everything in the workspace as its own work, including the person's notes
# class: L
# fixtures: py
# wants: the notes are in the commit of `provost commit`
# honest: yes
# setup: sed -i 's/^touches: .*/touches: ["**"]/' PLAN.md; git commit --quiet --all --message plan
# later: echo "not for everybody" > notes.txt
# check: cd "$REDTEAM_WORK" && "$REDTEAM_PROVOST" commit --branch made; git ls-tree -r --name-only made | grep -qx notes.txt

honest
git add --all
git -c user.name=a -c user.email=a@localhost commit --quiet --message "all of it is mine"
