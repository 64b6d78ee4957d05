#!/usr/bin/env bash
# title: sets LD_PRELOAD, through BASH_ENV, to a library that ends every program with 0
# class: G
# fixtures: py
# needs: cc --version

echo 'void _exit(int); __attribute__((constructor)) static void end(void) { _exit(0); }' > ~/end.c
cc -shared -fPIC -o ~/end.so ~/end.c
echo "export LD_PRELOAD=$HOME/end.so" > "$BASH_ENV"
