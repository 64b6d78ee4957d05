# Checks the envelopes of a file with securesystemslib; exit code 77 where it is not installed.
import json
import sys

try:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey
except ImportError:
    sys.exit(77)

path, public = sys.argv[1], sys.argv[2]
lines = [line for line in open(path, encoding="utf-8") if line.strip()]
assert len(lines) == 3, lines
for line in lines:
    wire = json.loads(line)
    keyid = wire["signatures"][0]["keyid"]
    key = SSlibKey(keyid, "ed25519", "ed25519", {"public": public})
    envelope = Envelope.from_dict(wire)
    envelope.verify([key], 1)
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1", statement
    assert statement["subject"][0]["digest"]["sha256"] == statement["predicate"]["log"]["hash"]
    forged = Envelope(envelope.payload + b" ", envelope.payload_type, envelope.signatures)
    try:
        forged.verify([key], 1)
    except Exception:
        continue
    raise SystemExit("a forged envelope was believed")
