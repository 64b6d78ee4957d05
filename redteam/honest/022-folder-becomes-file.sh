# title: a folder in whose place a file comes
# touches: config, config/**
project() { mkdir config; echo deep > config/main; }
contract() {
  grep -qx flat config
}
work() { rm -r config; echo flat > config; }
