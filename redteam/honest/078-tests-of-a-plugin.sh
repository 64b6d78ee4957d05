# title: tests that run the test runner on their own project, whose tests must fail
# touches: plugin.py
# needs: python3 -m pytest --version
project() {
  mkdir tests
  echo 'def pytest_configure(config): pass' > plugin.py
  printf 'import subprocess, sys\n\n\ndef test_the_plugin(tmp_path):\n    (tmp_path / "test_inner.py").write_text("def test_bad():\\n    assert False\\n\\n\\ndef test_good():\\n    pass\\n")\n    ran = subprocess.run([sys.executable, "-m", "pytest", "-p", "plugin", str(tmp_path)], capture_output=True, text=True)\n    assert ran.returncode == 1\n    assert "1 failed, 1 passed" in ran.stdout and "plugin: loaded" in ran.stdout, ran.stdout\n' > tests/test_plugin.py
}
contract() {
  PYTHONPATH=. python3 -m pytest -q tests
}
work() { printf 'def pytest_report_header(config):\n    return "plugin: loaded"\n' > plugin.py; }
