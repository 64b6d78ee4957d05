# title: a contract with a server in the background, a trap and a time limit
# touches: serve.py
# needs: python3 -c "import http.server"
project() { echo 'raise SystemExit(1)' > serve.py; }
contract() {
  set -e
  python3 serve.py "$TMPDIR/s" & server=$!
  trap 'kill $server 2>/dev/null || true' EXIT
  for i in $(seq 100); do test -S "$TMPDIR/s" && break; sleep 0.05; done
  timeout 10 python3 - "$TMPDIR/s" <<'PY'
  import socket, sys
  s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); assert s.recv(9) == b"hello"
  PY
}
work() {
  cat > serve.py <<'PY'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
c, _ = s.accept()
c.sendall(b"hello")
c.close()
PY
}
