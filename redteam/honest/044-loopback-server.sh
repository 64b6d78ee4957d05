# title: a test that listens on loopback
# touches: port.txt
# needs: python3 --version
project() { echo none > port.txt; }
contract() {
  python3 - <<'PY'
  import socket
  s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
  c = socket.create_connection(s.getsockname()); c.close()
  assert open("port.txt").read() == "any\n"
  PY
}
work() { echo any > port.txt; }
