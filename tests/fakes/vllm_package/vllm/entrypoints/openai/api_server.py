"""Writes its pids to $FAKE_VLLM_PIDS, and beside it how it was started.

$FAKE_VLLM may be `die` (at once) or `hang` (never answers).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int)
parser.add_argument("--served-model-name")
options, _ = parser.parse_known_args()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = {"data": [{"id": options.served_model_name}]} if self.path == "/v1/models" else {}
        content = json.dumps(body).encode()
        self.send_response(200 if self.path in ("/v1/models", "/health") else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


print("loading", os.environ["VLLM_ALLOW_RUNTIME_LORA_UPDATING"], flush=True)
behaviour = os.environ.get("FAKE_VLLM")
if behaviour == "die":
    sys.exit("ValueError: this model is too large")
worker = subprocess.Popen([sys.executable, "-c", STUBBORN])
pids = Path(os.environ["FAKE_VLLM_PIDS"])
how = {
    "command": sys.argv,
    "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "dev": os.environ.get("VLLM_SERVER_DEV_MODE"),
}
pids.with_suffix(".command").write_text(json.dumps(how))
pids.with_suffix(".new").write_text(json.dumps([os.getpid(), worker.pid]))
pids.with_suffix(".new").rename(pids)
if behaviour == "hang":
    time.sleep(600)
HTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
