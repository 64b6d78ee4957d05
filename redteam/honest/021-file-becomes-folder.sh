# title: a file in whose place a folder comes
# touches: config, config/**
project() { echo flat > config; }
contract() {
  grep -qx deep config/main
}
work() { rm config; mkdir config; echo deep > config/main; }
