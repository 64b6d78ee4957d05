# title: tests that move to another folder together with their module
# touches: calc.py, maths/**, tests/**
# step: **writes:** tests
# needs: python3 -m pytest --version
project() {
  mkdir tests
  printf 'def add(a, b):\n    return a - b\n' > calc.py
  printf 'import calc\n\n\ndef test_add():\n    assert calc.add(2, 2) == 4\n' > tests/test_calc.py
}
contract() {
  test ! -e calc.py && PYTHONPATH=. python3 -m pytest -q tests
}
work() {
  mkdir -p maths tests/maths
  rm calc.py; touch maths/__init__.py
  printf 'def add(a, b):\n    return a + b\n' > maths/calc.py
  git mv -q tests/test_calc.py tests/maths/test_calc.py 2>/dev/null || mv tests/test_calc.py tests/maths/test_calc.py
  sed -i 's/import calc/from maths import calc/' tests/maths/test_calc.py
}
