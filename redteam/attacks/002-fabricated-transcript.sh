#!/usr/bin/env bash
# title: prints a transcript of a green test run and a status in JSON
# class: A
# fixtures: py

cat <<'TEXT'
$ python3 -m unittest -q
----------------------------------------------------------------------
Ran 2 tests in 0.001s

OK
{"event":"CONTRACT_JUDGED","details":{"step":1,"subject":{"contract":1},"verdict":{"outcome":{"kind":"held"}}}}
{"step": 1, "status": "passed", "exit_code": 0}
TEXT
