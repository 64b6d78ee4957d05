# title: a test that leaves a daemon behind
# touches: ok.txt
project() { echo no > ok.txt; }
contract() {
  (setsid sleep 20 >/dev/null 2>&1 &)
  grep -qx yes ok.txt
}
work() { echo yes > ok.txt; }
