# title: a folder that is replaced by a file
# touches: config, config/**
project() { mkdir config; echo deep > config/main; }
contract() {
  grep -qx flat config
}
work() { rm -r config; echo flat > config; }
