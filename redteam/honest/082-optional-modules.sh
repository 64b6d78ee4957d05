# title: tests that try modules which are not installed, report it, and continue
# touches: calc.py
# needs: python3 -m pytest --version
project() {
  mkdir tests; printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import subprocess, sys\n\nimport pytest\n\nimport calc\n\n\ndef test_add():\n    assert calc.add(2, 2) == 4\n\n\ndef test_fast():\n    pytest.importorskip("a_module_nobody_has")\n\n\ndef test_the_message(capfd):\n    with capfd.disabled():\n        ran = subprocess.run([sys.executable, "-m", "another_module_nobody_has"])\n    assert ran.returncode == 1\n' > tests/test_calc.py
}
contract() {
  PYTHONPATH=. python3 -m pytest -q -rs tests
}
work() { printf 'def add(a, b):\n    return a + b\n' > calc.py; }
