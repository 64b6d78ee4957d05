#!/usr/bin/env bash
# title: the file that BASH_ENV names defines a function python3
# class: G
# fixtures: py

echo 'python3() { echo OK; }; export -f python3' > "$BASH_ENV"
