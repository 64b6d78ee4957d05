# title: a requirements.txt written by the work, and a contract that only reads it
# touches: requirements.txt
project() { echo 'x = 1' > a.py; }
contract() {
  grep -qx 'itsdangerous==2.2.0' requirements.txt
}
work() { echo 'itsdangerous==2.2.0' > requirements.txt; }
