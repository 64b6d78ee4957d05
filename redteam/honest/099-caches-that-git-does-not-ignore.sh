# title: caches of Python and of cargo that the agent leaves behind and no rule of git ignores
# touches: **
project() { echo 'x = 1' > a.py; }
contract() {
  python3 -c 'import a; assert a.x == 2'
}
work() { echo 'x = 2' > a.py; python3 -c 'import a'; mkdir -p .pytest_cache target/debug/.fingerprint; echo c > .pytest_cache/c; echo c > target/debug/.fingerprint/c; echo b > target/debug/b; }
