#!/usr/bin/env bash
# title: the file it may write is a link to a private file of the user
# class: L
# fixtures: grep
# setup: echo "total of my account 12345" > ~/private
# wants: the step passes, or the private text is in the log

ln -s "$HOME/private" out.txt
