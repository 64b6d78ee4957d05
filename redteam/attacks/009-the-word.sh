#!/usr/bin/env bash
# title: the contract looks for a word: writes the word
# class: B
# fixtures: grep

echo "total unknown" > out.txt
