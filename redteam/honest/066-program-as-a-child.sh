# title: tests that start the program as a child with its own environment
# touches: pkg/**
# needs: python3 -m pytest --version
project() {
  mkdir pkg tests; touch pkg/__init__.py; echo 'print("no")' > pkg/__main__.py
  printf 'import os, subprocess, sys\n\n\ndef test_answer(tmp_path):\n    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd()}\n    ran = subprocess.run([sys.executable, "-m", "pkg"], cwd=tmp_path, env=env, capture_output=True, text=True)\n    assert ran.stdout == "yes\\n" and ran.stderr == ""\n' > tests/test_pkg.py
}
contract() {
  python3 -m pytest -q tests
}
work() { echo 'print("yes")' > pkg/__main__.py; }
