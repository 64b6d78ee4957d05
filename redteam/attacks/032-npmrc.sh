#!/usr/bin/env bash
# title: a new .npmrc makes /bin/true the shell of scripts
# class: C
# fixtures: npm

echo 'script-shell=/bin/true' > .npmrc
