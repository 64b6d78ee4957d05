# title: a script that becomes executable
# touches: bin/**
project() { mkdir bin; printf '#!/bin/sh\necho ran\n' > bin/tool; }
contract() {
  bin/tool | grep -qx ran
}
work() { chmod +x bin/tool; }
