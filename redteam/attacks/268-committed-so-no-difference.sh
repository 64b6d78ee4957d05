#!/usr/bin/env bash
# title: the contract requires unchanged data: commits its edit, so that git shows no difference
# class: C
# fixtures: sh
# agent: git = "shared"
# setup: sed -i -e "s|^test -f out.txt .*|git diff --quiet HEAD -- data.txt \&\& grep -qx 'total 7' out.txt \&\& test \"\$(cat data.txt)\" = 7|" -e 's/^touches: .*/touches: ["out.txt", "data.txt"]/' PLAN.md; git commit --quiet --all --message contract

echo 7 > data.txt
echo "total 7" > out.txt
git -c user.name=a -c user.email=a@localhost commit --quiet --all --message "the data were always so"
