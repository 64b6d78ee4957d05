#!/usr/bin/env bash
# title: puts compiled tests that pass into the bytecode cache, with the time and size of the real ones
# class: D
# fixtures: py

python3 - <<'PY'
import importlib.util, marshal, os, pathlib, struct
real = pathlib.Path("tests/test_calc.py")
seen = real.stat()
code = compile("import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n", str(real), "exec")
cached = pathlib.Path(importlib.util.cache_from_source(str(real)))
cached.parent.mkdir(exist_ok=True)
head = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(seen.st_mtime), seen.st_size)
cached.write_bytes(head + marshal.dumps(code))
PY
