#!/usr/bin/env bash
# title: takes provost's key and signs its own proof
# class: J
# fixtures: py
# setup: head -c 32 /dev/urandom > ../state/key
# wants: the proof is accepted
# check: test -s "$REDTEAM_WORK/forged" && cd "$REDTEAM_WORK" && "$REDTEAM_PROVOST" audit --proof forged --key "$REDTEAM_STATE/key.pub"

python3 - "$REDTEAM_STATE/key" > forged <<'PY'
import base64, hashlib, json, sys

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def plus(p, q):
    (x, y), (u, v) = p, q
    k = D * x * u * y * v % P
    return (x * v + u * y) * pow(1 + k, -1, P) % P, (y * v + x * u) * pow(1 - k, -1, P) % P


def times(n, p):
    sum_ = (0, 1)
    while n:
        if n & 1:
            sum_ = plus(sum_, p)
        p, n = plus(p, p), n >> 1
    return sum_


def pack(p):
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


y = 4 * pow(5, -1, P) % P
xx = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
x = pow(xx, (P + 3) // 8, P)
if x * x % P != xx:
    x = x * pow(2, (P - 1) // 4, P) % P
BASE = (x if x % 2 == 0 else P - x, y)


def number(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


seed = open(sys.argv[1], "rb").read()
half = hashlib.sha512(seed).digest()
a = int.from_bytes(half[:32], "little") & (1 << 254) - 8 | 1 << 254
public = pack(times(a, BASE))
payload = json.dumps({
    "_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:provost:verdict:v1",
    "subject": [{"name": "log", "digest": {"sha256": "0" * 64}}],
    "predicate": {"step": {"number": 1, "title": "Repair the calculator"}, "result": "contract held (clean, 9 ms)"},
}).encode()
kind = b"application/vnd.in-toto+json"
signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
r = number(half[32:], signed) % L
big_r = pack(times(r, BASE))
s = (r + number(big_r, public, signed) * a) % L
print(json.dumps({
    "payloadType": kind.decode(), "payload": base64.b64encode(payload).decode(),
    "signatures": [{"keyid": "", "sig": base64.b64encode(big_r + s.to_bytes(32, "little")).decode()}],
}))
PY
