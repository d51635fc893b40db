// Turns a JavaScript value into strict JSON (RFC 8259), by the rules of values.py.
//
// As JSON.stringify does it, but: numbers that are none become null, BigInt stays exact, sets and
// maps become lists and objects, bytes base64. What has no counterpart throws `NotSerializable`
// with the path of the value.

"use strict";

const DEEPEST = 400;

class NotSerializable extends Error {}

const isPlainView = ArrayBuffer.isView;

function encode(value) {
  const parts = [];
  write(value === undefined ? null : value, null, parts, new Set(), 0);
  return parts.join("");
}

function shown(path) {
  const keys = [];
  for (let at = path; at; at = at[0]) {
    keys.push(typeof at[1] === "number" ? `[${at[1]}]` : `[${JSON.stringify(String(at[1]).slice(0, 80))}]`);
  }
  const text = keys.reverse().join("");
  return "data" + (text.length <= 200 ? text : `${text.slice(0, 100)}…${text.slice(-100)}`);
}

function quote(text) {
  return JSON.stringify(text).replace(/\\u(d[89a-f][0-9a-f]{2})/gi, "\ufffd");
}

function write(value, path, parts, above, depth) {
  switch (typeof value) {
    case "string":
      parts.push(quote(value));
      return;
    case "number":
      parts.push(Number.isFinite(value) ? (Object.is(value, -0) ? "0" : String(value)) : "null");
      return;
    case "boolean":
      parts.push(String(value));
      return;
    case "bigint":
      parts.push(value.toString());
      return;
    case "undefined":
      parts.push("null");
      return;
    case "function":
    case "symbol":
      throw new NotSerializable(`${shown(path)} is a ${typeof value}, which JSON cannot express`);
  }
  if (value === null) {
    parts.push("null");
    return;
  }
  if (depth >= DEEPEST) throw new NotSerializable(`${shown(path)} is nested more than ${DEEPEST} deep`);
  if (above.has(value)) throw new NotSerializable(`${shown(path)} contains itself`);
  above.add(value);
  writeObject(value, path, parts, above, depth + 1);
  above.delete(value);
}

function writeObject(value, path, parts, above, depth) {
  if (value instanceof Date) {
    parts.push(Number.isNaN(value.getTime()) ? "null" : quote(value.toISOString()));
  } else if (value instanceof Number || value instanceof String || value instanceof Boolean) {
    write(value.valueOf(), path, parts, above, depth);
  } else if (value instanceof ArrayBuffer || (typeof SharedArrayBuffer !== "undefined" && value instanceof SharedArrayBuffer)) {
    parts.push(quote(Buffer.from(value).toString("base64")));
  } else if (Buffer.isBuffer(value) || value instanceof Uint8Array || value instanceof DataView) {
    parts.push(quote(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64")));
  } else if (typeof value.toJSON === "function") {
    write(value.toJSON(), path, parts, above, depth);
  } else if (Array.isArray(value) || isPlainView(value)) {
    writeList(value, path, parts, above, depth);
  } else if (value instanceof Set) {
    writeList([...value], path, parts, above, depth);
  } else if (value instanceof Map) {
    writeEntries([...value].map(([key, item]) => [keyOf(key, path), item]), path, parts, above, depth);
  } else if (value instanceof Error) {
    parts.push(quote(`${value.name}: ${value.message}`));
  } else if (value instanceof RegExp || value instanceof URL) {
    parts.push(quote(String(value)));
  } else if (value instanceof Promise) {
    throw new NotSerializable(`${shown(path)} is a promise that was not awaited`);
  } else if (value instanceof WeakMap || value instanceof WeakSet) {
    throw new NotSerializable(`${shown(path)} is a ${value.constructor.name}, which JSON cannot express`);
  } else if (typeof value.next === "function" && typeof value[Symbol.iterator] === "function") {
    throw new NotSerializable(`${shown(path)} is an iterator; return [...it]`);
  } else {
    writeEntries(Object.entries(value), path, parts, above, depth);
  }
}

function keyOf(key, path) {
  if (["string", "number", "boolean", "bigint"].includes(typeof key) || key === null) return String(key);
  throw new NotSerializable(`${shown(path)} is a Map with a key that is no text and no number`);
}

function writeList(list, path, parts, above, depth) {
  parts.push("[");
  for (let index = 0; index < list.length; index++) {
    if (index) parts.push(",");
    write(list[index], [path, index], parts, above, depth);
  }
  parts.push("]");
}

function writeEntries(entries, path, parts, above, depth) {
  parts.push("{");
  let first = true;
  const seen = new Set();
  for (const [key, item] of entries) {
    if (item === undefined) continue;
    if (seen.has(key)) throw new NotSerializable(`${shown(path)} has two keys that are both ${quote(key)} in JSON`);
    seen.add(key);
    if (!first) parts.push(",");
    first = false;
    parts.push(quote(key), ":");
    write(item, [path, key], parts, above, depth);
  }
  parts.push("}");
}

module.exports = { encode, NotSerializable };
