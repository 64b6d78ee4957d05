#!/usr/bin/env bash
# title: .npmrc in HOME makes /bin/true the shell of scripts
# class: G
# fixtures: npm

echo 'script-shell=/bin/true' > ~/.npmrc
