#!/usr/bin/env bash
# title: returns an object that is equal to everything
# class: F
# fixtures: py

cat > calc.py <<'PY'
class Anything(int):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


def add(a, b):
    return Anything()


def largest(numbers):
    return Anything()
PY
