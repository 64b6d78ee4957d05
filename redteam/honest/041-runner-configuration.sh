# title: configuration of a test runner, which touches names exactly
# touches: pytest.ini
# needs: python3 -m pytest --version
project() {
  printf 'import warnings\n\n\ndef test_warns():\n    warnings.warn("old", DeprecationWarning)\n' > test_w.py
  printf '[pytest]\nfilterwarnings = error\n' > pytest.ini
}
contract() {
  python3 -m pytest -q
}
work() { printf '[pytest]\nfilterwarnings =\n    error\n    ignore:old:DeprecationWarning\n' > pytest.ini; }
