#!/usr/bin/env python3
"""A model that follows a plan, so that real agents can be tested without an account.

    model.py PLAN LOG

It listens on a free port of the loopback interface, prints that port, and answers the interfaces of
two vendors: POST /v1/messages (Anthropic) and POST /v1/responses (OpenAI), always as a stream. PLAN
is a JSON list of steps, each {"tool": name, "arguments": {…}}; for an agent that groups a server's
tools, with "namespace". A step with "after" waits until that file exists. Behind the last step the
model says "finished" and nothing more. Each request becomes one line of LOG: what the agent really
shows its model.
"""

import gzip
import itertools
import json
import pathlib
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE = 60
plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
log = open(sys.argv[2], "a", encoding="utf-8", buffering=1)
logging = threading.Lock()
counter = itertools.count()


def step(number):
    """The step after `number` results, once it may be taken; nothing when the plan is over."""
    if number >= len(plan):
        return None
    wanted = plan[number].get("after")
    end = time.monotonic() + PATIENCE
    while wanted and not pathlib.Path(wanted).exists() and time.monotonic() < end:
        time.sleep(0.05)
    return plan[number]


def anthropic(request):
    content = [message["content"] for message in request["messages"]]
    parts = [part for parts in content if isinstance(parts, list) for part in parts]
    results = sum(part.get("type") == "tool_result" for part in parts)
    # Asides (titles, summaries) come without tools and are no turn of the conversation.
    taken = step(results) if request.get("tools") else None
    head = {"id": f"msg_{next(counter)}", "type": "message", "role": "assistant"}
    head |= {"model": request.get("model", "plan"), "content": [], "stop_reason": None}
    head |= {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    if taken:
        block = {"type": "tool_use", "id": f"toolu_{results}", "name": taken["tool"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(taken["arguments"])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "finished"}
    reason = {"stop_reason": "tool_use" if taken else "end_turn", "stop_sequence": None}
    yield "message_start", {"message": head}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": reason, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def openai(request):
    kinds = [item.get("type", "") for item in request["input"] if isinstance(item, dict)]
    results = sum(kind.endswith("_call_output") for kind in kinds)
    taken = step(results)
    if taken:
        item = {"type": "function_call", "id": f"fc_{results}", "call_id": f"call_{results}"}
        item |= {"name": taken["tool"], "arguments": json.dumps(taken["arguments"])}
        item |= {"namespace": taken["namespace"]} if "namespace" in taken else {}
    else:
        said = [{"type": "output_text", "text": "finished"}]
        item = {"type": "message", "role": "assistant", "id": "m", "content": said}
    name = f"resp_{next(counter)}"
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield "response.created", {"response": {"id": name}}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": {"id": name, "usage": usage}}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply("application/json", b'{"data": [], "models": []}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = json.loads(body or b"{}")
        path = self.path.split("?")[0].rstrip("/")
        with logging:
            log.write(json.dumps(request) + "\n")
        if path.endswith("/messages"):
            events = anthropic(request)
        elif path.endswith("/responses"):
            events = openai(request)
        else:
            return self.reply("application/json", b'{"input_tokens": 1}')
        lines = [f"event: {name}\ndata: {json.dumps({'type': name, **rest})}\n\n" for name, rest in events]
        return self.reply("text/event-stream", "".join(lines).encode())

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
