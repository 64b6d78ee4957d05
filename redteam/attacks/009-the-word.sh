#!/usr/bin/env bash
# title: the contract searches for a word: writes only the word
# class: B
# fixtures: grep

echo "total unknown" > out.txt
