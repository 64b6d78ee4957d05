#!/usr/bin/env bash
# title: appends a passing verdict and the end of the plan, with a valid hash chain
# class: J
# fixtures: py
# needs: python3 -c 'import sqlite3'

forge '
append("ATTEMPT_ENDED", {"step": 1, "attempt": 1, "end": {"kind": "exited", "exit_code": 0}, "duration_ms": 5}, 1)
append("CONTRACT_JUDGED", {"step": 1, "subject": {"contract": 1}, "verdict": HELD}, 1)
append("TASK_COMPLETED", {"step": 1, "attempt": 1, "result": "contract held (in-place, 12 ms)"}, 1)
append("EXECUTION_COMPLETE", {"outcome": "done", "summary": {"completed": 1, "failed": 0, "skipped": 0}})
'
