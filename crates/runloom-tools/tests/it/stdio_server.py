"""An MCP server on its standard streams, with every habit that a test needs. Standard library only."""

import json
import os
import signal
import sys
import threading
import time

habits = sys.argv[1:]
if "note-start" in habits:
    with open(habits[habits.index("note-start") + 1], "a") as notes:
        notes.write("started\n")
if "exit" in habits:
    sys.exit(3)
if "stubborn" in habits:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "noisy" in habits:
    for number in range(20_000):
        print(f"line {number} " + "x" * 100, file=sys.stderr)

lock = threading.Lock()
busy = 0
most = 0
received = {}


def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def linger():
    global busy, most
    with lock:
        busy += 1
        most = max(most, busy)
    time.sleep(0.05)
    with lock:
        busy -= 1
        return most


def call(name, arguments):
    if name == "echo":
        return text(arguments.get("text", ""))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "folder":
        return text(os.getcwd())
    if name == "die":
        os._exit(7)
    if name == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
        # The signal may stop another thread first, and this one must not answer meanwhile.
        threading.Event().wait()
    if name == "stall":
        threading.Event().wait()
    if name == "linger":
        return text(str(linger()))
    if name == "received":
        return text(json.dumps(received))
    if name == "nap":
        time.sleep(0.5)
        return text("awake")
    return {"isError": True, **text(f"no tool {name}")}


TOOLS = ["echo", "pid", "environment", "folder", "die", "linger", "hang", "stall", "nap", "received", "refuse"]


def answer(message):
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        return
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "stdio", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": tool, "description": f"does {tool}",
                             "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
                             "annotations": {"readOnlyHint": tool != "die"}} for tool in TOOLS]}
    elif method == "tools/call" and params["name"] == "refuse":
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "not like that"}})
        return
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments") or {})
    else:
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        return
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    what = (message.get("params") or {}).get("name") or message.get("method")
    received[what] = received.get(what, 0) + 1
    if "serial" in habits:
        answer(message)
        continue
    threading.Thread(target=answer, args=(message,), daemon=True).start()
while "stubborn" in habits:
    time.sleep(1)
