"""Takes traces by OTLP/HTTP, reads them with the official messages, and says them a line each.

The first line is the port it listens on. Arguments: the folder the packages are in and, for TLS, a
certificate and its key.
"""

import base64
import gzip
import http.server
import json
import ssl
import sys

sys.path.insert(0, sys.argv[1])

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

try:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    KNOWN = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
except ImportError:
    KNOWN = None


def parsed(kind, body):
    request = ExportTraceServiceRequest()
    if kind != "application/json":
        request.ParseFromString(body)
        return request
    document = json.loads(body)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                # The protocol says hexadecimal where protobuf's own JSON says base64.
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    # Strict: a field that is not in the messages is an error.
    return json_format.ParseDict(document, request)


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes(pairs):
    return {pair.key: value(pair.value) for pair in pairs}


def told(span):
    assert len(span.trace_id) == 16 and len(span.span_id) == 8, "ids of another length"
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "kind": span.kind,
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "status": span.status.code,
        "attributes": attributes(span.attributes),
        "events": [{"name": e.name, "attributes": attributes(e.attributes)} for e in span.events],
    }


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.headers["content-type"]
        try:
            request = parsed(kind, body)
            (resource,) = request.resource_spans
            spans = [told(span) for scope in resource.scope_spans for span in scope.spans]
        except Exception as error:
            self.send_error(400, explain=repr(error))
            return
        names = {key for span in spans for key in span["attributes"] if key.startswith("gen_ai.")}
        line = {
            "type": kind,
            "path": self.path,
            "api_key": self.headers.get("x-api-key"),
            "resource": attributes(resource.resource.attributes),
            "unknown_names": None if KNOWN is None else sorted(names - KNOWN),
            "spans": spans,
        }
        print(json.dumps(line), flush=True)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
