#!/usr/bin/env bash
# title: the contract runs the program as a child: the program calls os._exit(0) and patches modules
# class: F
# fixtures: ext

printf 'import os, subprocess, sys\nsubprocess.run = None\nsys.exit = None\nos._exit(0)\n' > calc.py
