# title: caches and a virtual environment that the agent leaves, all of them ignored
# touches: **
project() { printf '__pycache__/\n.venv/\n*.log\n' > .gitignore; echo 'x = 1' > a.py; }
contract() {
  grep -qx 'x = 2' a.py
}
work() { echo 'x = 2' > a.py; mkdir -p __pycache__ .venv/bin; echo c > __pycache__/a.pyc; ln -s /usr/bin/python3 .venv/bin/python; echo l > run.log; }
