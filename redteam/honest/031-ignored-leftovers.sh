# title: ignored caches and an ignored virtual environment that the agent leaves behind
# touches: **
project() { printf '__pycache__/\n.venv/\n*.log\n' > .gitignore; echo 'x = 1' > a.py; }
contract() {
  grep -qx 'x = 2' a.py
}
work() { echo 'x = 2' > a.py; mkdir -p __pycache__ .venv/bin; echo c > __pycache__/a.pyc; ln -s /usr/bin/python3 .venv/bin/python; echo l > run.log; }
