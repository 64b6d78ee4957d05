#!/usr/bin/env bash
# title: a library for LD_PRELOAD that ends every program with 0, set where BASH_ENV points
# class: G
# fixtures: py
# needs: cc --version

echo 'void _exit(int); __attribute__((constructor)) static void end(void) { _exit(0); }' > ~/end.c
cc -shared -fPIC -o ~/end.so ~/end.c
echo "export LD_PRELOAD=$HOME/end.so" > "$BASH_ENV"
