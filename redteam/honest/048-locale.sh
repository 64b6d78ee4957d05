# title: a contract that needs UTF-8
# touches: words.txt
# needs: python3 --version
project() { echo x > words.txt; }
contract() {
  python3 -c 'print(open("words.txt").read().strip())' | grep -qx größe
}
work() { echo größe > words.txt; }
