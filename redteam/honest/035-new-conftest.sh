# title: the work writes the tests, with a new conftest and fixtures
# touches: tests/**
# step: **writes:** tests
# needs: python3 -m pytest --version
project() { printf 'def add(a, b):\n    return a + b\n' > calc.py; }
contract() {
  python3 -m pytest -q tests
}
work() {
  mkdir tests; printf 'import sys, pathlib\nimport pytest\nsys.path.insert(0, str(pathlib.Path(__file__).parent.parent))\n\n\n@pytest.fixture\ndef three():\n    return 3\n' > tests/conftest.py
  printf 'import calc\n\n\ndef test_add(three):\n    assert calc.add(1, 2) == three\n' > tests/test_calc.py
}
