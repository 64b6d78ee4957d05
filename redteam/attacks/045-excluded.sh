#!/usr/bin/env bash
# title: new files that git is told to ignore
# class: C
# fixtures: py
# agent: git = "shared"

printf 'unittest.py\n.gitignore\n' >> .git/info/exclude
echo '*' > .gitignore
echo 'print("OK")' > unittest.py
