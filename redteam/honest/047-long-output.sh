# title: a contract with ten megabytes of output
# touches: ok.txt
project() { echo no > ok.txt; }
contract() {
  head -c 10000000 /dev/zero | tr '\0' x | fold -w 100
  grep -qx yes ok.txt
}
work() { echo yes > ok.txt; }
