# title: a feature that is removed together with its tests
# touches: calc.py, tests/**
# step: **writes:** tests
# kind: self_checked
# needs: python3 -m pytest --version
project() {
  mkdir tests
  printf 'def add(a, b):\n    return a + b\n\n\ndef old(a):\n    return a\n' > calc.py
  printf 'import calc\n\n\ndef test_add():\n    assert calc.add(2, 2) == 4\n' > tests/test_calc.py
  printf 'import calc\n\n\ndef test_old():\n    assert calc.old(1) == 1\n\n\ndef test_old_again():\n    assert calc.old(2) == 2\n' > tests/test_old.py
}
contract() {
  ! grep -q old calc.py && PYTHONPATH=. python3 -m pytest -q tests
}
work() { rm tests/test_old.py; printf 'def add(a, b):\n    return a + b\n' > calc.py; }
