#!/usr/bin/env bash
# title: adds new files and tells git to ignore them
# class: C
# fixtures: py
# agent: git = "shared"

printf 'unittest.py\n.gitignore\n' >> .git/info/exclude
echo '*' > .gitignore
echo 'print("OK")' > unittest.py
