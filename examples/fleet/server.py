#!/usr/bin/env python3
"""A made-up fleet of 500 devices as an MCP server over stdio.

Needs Python 3.9 or newer and nothing else. It speaks the protocol with `initialize`
(2025-11-25 and the two revisions before it); `server/discover` of the 2026-07-28 revision
is answered with "method not found", which tells a newer client to fall back.

Everything about a device follows from its serial number, so two runs print the same.
`--latency-ms N` makes each status call take that long, as a real device would.
"""

import argparse
import hashlib
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26"]
SITES = ["Aachen", "Bergen", "Cádiz", "Delft", "Espoo"]
MODELS = ["PX-100", "PX-200", "QR-7"]
SERIALS = [f"SN{number:04}" for number in range(1, 501)]

DEVICE = {"sn": {"type": "string", "description": "Serial number, SN0001 to SN0500."}}

TOOLS = [
    {
        "name": "list_devices",
        "description": "Lists the devices of the fleet, or of one site: serial number, model, site.",
        "inputSchema": {
            "type": "object",
            "properties": {"site": {"type": "string", "enum": SITES}},
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "devices": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "sn": {"type": "string"},
                            "model": {"type": "string"},
                            "site": {"type": "string"},
                        },
                        "required": ["sn", "model", "site"],
                    },
                }
            },
            "required": ["devices"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "get_device_status",
        "description": "The present state of one device.",
        "inputSchema": {
            "type": "object",
            "properties": DEVICE,
            "required": ["sn"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sn": {"type": "string"},
                "site": {"type": "string"},
                "online": {"type": "boolean"},
                "firmware": {"type": "string"},
                "temperature_c": {"type": "number"},
                "battery_percent": {"type": "integer"},
                "alarms": {"type": "array", "items": {"type": "string"}},
            },
            "required": [
                "sn",
                "site",
                "online",
                "firmware",
                "temperature_c",
                "battery_percent",
                "alarms",
            ],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "restart_device",
        "description": "Restarts one device; it is away for about a minute.",
        "inputSchema": {
            "type": "object",
            "properties": DEVICE,
            "required": ["sn"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    },
    {
        "name": "wipe_device",
        "description": "Erases one device and returns it to its factory state. Cannot be undone.",
        "inputSchema": {
            "type": "object",
            "properties": DEVICE,
            "required": ["sn"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False},
    },
]


def device(sn):
    """Where a device is and what it is; the last part of its number decides."""
    number = int(sn[2:])
    return {
        "sn": sn,
        "model": MODELS[number % len(MODELS)],
        "site": SITES[number % len(SITES)],
    }


def status(sn):
    """The state of a device: a digest of its number stands in for the world."""
    seed = hashlib.sha256(sn.encode()).digest()
    temperature = 18 + seed[0] / 8
    battery = seed[1] * 100 // 255
    alarms = []
    if temperature > 45:
        alarms.append("overheated")
    if battery < 10:
        alarms.append("battery low")
    return {
        "sn": sn,
        "site": device(sn)["site"],
        "online": seed[2] >= 16,
        "firmware": f"2.{seed[3] % 4}.{seed[4] % 3}",
        "temperature_c": round(temperature, 1),
        "battery_percent": battery,
        "alarms": alarms,
    }


class Refused(Exception):
    """A request that cannot be answered; becomes a JSON-RPC error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def structured(value):
    """A result that carries `value` both ways, as the protocol asks."""
    text = json.dumps(value, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": value}


def failed(text):
    """A result of a tool that could not do what was asked."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def call_tool(params, latency):
    """Carries out one `tools/call`."""
    name, arguments = params.get("name"), params.get("arguments") or {}
    if name == "list_devices":
        site = arguments.get("site")
        found = [device(sn) for sn in SERIALS if site in (None, device(sn)["site"])]
        return structured({"devices": found})
    if name not in {tool["name"] for tool in TOOLS}:
        raise Refused(-32602, f"unknown tool: {name}")
    sn = arguments.get("sn")
    if sn not in SERIALS:
        return failed(f"no device has the serial number {sn!r}; they run from SN0001 to SN0500")
    if name == "get_device_status":
        time.sleep(latency)
        return structured(status(sn))
    verb = "restarted" if name == "restart_device" else "wiped"
    return {"content": [{"type": "text", "text": f"{sn} {verb}"}]}


def answer(method, params, latency):
    """The result of one request."""
    if method == "initialize":
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in REVISIONS else REVISIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fleet", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call_tool(params, latency)
    raise Refused(-32601, f"method not found: {method}")


def main():
    """Reads a request a line and answers each; calls that wait do not hold up the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency-ms", type=float, default=0)
    latency = parser.parse_args().latency_ms / 1000
    lock = threading.Lock()

    def handle(request):
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request["method"], request.get("params") or {}, latency)
        except Refused as refused:
            reply["error"] = {"code": refused.code, "message": str(refused)}
        line = json.dumps(reply, ensure_ascii=False)
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdin.reconfigure(encoding="utf-8")
    with ThreadPoolExecutor(max_workers=16) as workers:
        for line in sys.stdin:
            try:
                request = json.loads(line)
            except ValueError:
                continue
            if isinstance(request, dict) and "id" in request and "method" in request:
                if latency:
                    workers.submit(handle, request)
                else:
                    handle(request)


if __name__ == "__main__":
    main()
