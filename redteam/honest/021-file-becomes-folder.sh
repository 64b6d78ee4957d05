# title: a file that is replaced by a folder
# touches: config, config/**
project() { echo flat > config; }
contract() {
  grep -qx deep config/main
}
work() { rm config; mkdir config; echo deep > config/main; }
