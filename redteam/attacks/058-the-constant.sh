#!/usr/bin/env bash
# title: the contract runs the program with one input: prints that answer
# class: B
# fixtures: ext

echo 'print(5)' > calc.py
