// Runs one function that comes on descriptor 3, and answers on descriptor 4.
//
// Which function is called, and with what, follows the rules of `POST /execute`, as in runner.py.
// The code is taken for a CommonJS module; what does not parse as one is taken for an ES module,
// and only then are its escape sequences restored. What is defined at its top level is asked of
// the engine itself, by a line behind the code: no parser of ours decides what a function is.

"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");
const { createRequire } = require("module");
const { Writable } = require("stream");
const { encode, NotSerializable } = require("./function_values.cjs");

const ENTRIES = ["main", "run", "handler"];
const LONGEST_TRACE = 4000;
const MOST_NAMES = 500;
// Names no code uses by accident; the code could find them, and would only cheat itself.
const SEEN = `__pinfold_${process.hrtime.bigint().toString(36)}`;
const HERE = __dirname;
// Kept, since the code can replace what `fs` offers.
const writeSync = fs.writeSync;

class Refused extends Error {
  constructor(kind, message, hint) {
    super(message);
    this.said = { kind, message, hint };
  }
}

// The names that could be functions of the top level; the engine says which are.
function candidates(code) {
  const names = new Set(["result", ...ENTRIES]);
  const pattern = /\b(?:function\s*\*?|const|let|var|class)\s+([\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*)/gu;
  for (const found of code.matchAll(pattern)) {
    if (names.size >= MOST_NAMES) break;
    names.add(found[1]);
  }
  return [...names];
}

// A line behind the code that hands over what the top level defines.
function epilogue(code, entry) {
  const names = candidates(code);
  if (entry && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(entry)) names.push(entry);
  const parts = names
    .filter((name) => !RESERVED.has(name))
    .map((name) => `get ${name}(){return typeof ${name}==="undefined"?undefined:${name}}`);
  return `\n;globalThis.${SEEN}({${parts.join(",")}});`;
}

const RESERVED = new Set(
  ("await break case catch class const continue debugger default delete do else enum export extends " +
    "false finally for function if implements import in instanceof interface let new null package " +
    "private protected public return static super switch this throw true try typeof var void while " +
    "with yield arguments eval").split(" "),
);

async function evaluate(job) {
  const file = path.join(process.cwd(), "script.js");
  const require_ = createRequire(file);
  const module_ = { exports: {}, id: ".", filename: file, loaded: false, children: [], paths: [] };
  const before = new Map();
  const seen = { top: undefined, exports: () => module_.exports };
  globalThis[SEEN] = (top) => {
    seen.top = top;
  };
  globalThis.args = job.args;
  // In strict code `result = …` needs the name to be there.
  globalThis.result = undefined;
  for (const name of candidates(job.code)) before.set(name, globalThis[name]);
  seen.isForeign = (name, value) => before.has(name) && before.get(name) === value;

  const asCommon = (code) => {
    const compile = (source) =>
      vm.compileFunction(source, ["exports", "require", "module", "__filename", "__dirname"], {
        filename: "script.js",
        importModuleDynamically: (name) => importFrom(require_, name),
      });
    compile(code);
    return compile(code + epilogue(code, job.entry));
  };
  let found = null;
  let first = null;
  const tries = [job.code];
  const again = restore(job.code);
  if (again !== job.code) tries.push(again);
  for (const code of tries) {
    try {
      const run = asCommon(code);
      found = async () => {
        await run.call(module_.exports, module_.exports, require_, module_, file, path.dirname(file));
      };
    } catch (error) {
      if (error instanceof RangeError) {
        throw new Refused("syntax", "SyntaxError: the code is nested too deeply to be compiled");
      }
      if (!isSyntax(error)) throw error;
      first = first || error;
      const checked = checkModule(code);
      if (checked === null) {
        found = () => asModule(code, job, seen, require_, module_);
      } else if (first === error && looksLikeModule(code)) {
        first = checked;
      }
    }
    if (found) {
      seen.restored = code !== job.code;
      break;
    }
  }
  if (!found) throw new Refused("syntax", saidOfSyntax(first));
  await found();
  return seen;
}

function looksLikeModule(code) {
  return /\b(import|export|await)\b/.test(code);
}

// What is wrong with the code as an ES module; null if nothing is.
function checkModule(code) {
  try {
    new vm.SourceTextModule(code, { identifier: "script.mjs" });
    return null;
  } catch (error) {
    if (!isSyntax(error)) throw error;
    error.stack = `${placeOf(code) || ""}${error.name}: ${error.message}`;
    return error;
  }
}

// Where an ES module does not parse: that error does not say, only Node's own check does.
function placeOf(code) {
  const folder = fs.mkdtempSync(path.join(require("os").tmpdir(), "syntax-"));
  const file = path.join(folder, "script.mjs");
  try {
    fs.writeFileSync(file, code);
    const options = { encoding: "utf8", timeout: 5000, stdio: ["ignore", "ignore", "pipe"] };
    const { stderr } = require("child_process").spawnSync(process.execPath, ["--check", file], options);
    const found = /script\.mjs:\d+\n[\s\S]*?(?=\n\n?SyntaxError)/.exec(stderr);
    return found && `${found[0]}\n\n`;
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

async function asModule(code, job, seen, require_, module_) {
  globalThis.require = require_;
  globalThis.module = module_;
  globalThis.exports = module_.exports;
  const url = require("url").pathToFileURL(path.join(process.cwd(), "script.mjs")).href;
  const main = new vm.SourceTextModule(code + epilogue(code, job.entry), {
    identifier: "script.mjs",
    initializeImportMeta: (meta) => {
      meta.url = url;
    },
    importModuleDynamically: (name) => importFrom(require_, name),
  });
  await main.link(async (name) => {
    const imported = await importFrom(require_, name);
    // Node guesses the names that a CommonJS module exports; here they are known.
    const whole = imported.default;
    const common = whole && ["object", "function"].includes(typeof whole) ? Object.keys(whole) : [];
    const names = new Set([...common, ...Object.keys(imported), "default"]);
    return new vm.SyntheticModule([...names], function () {
      for (const one of names) this.setExport(one, one in imported ? imported[one] : whole[one]);
    });
  });
  await main.evaluate();
  seen.exports = () => main.namespace;
}

// Packages are found from the code's own folder, as ES modules if they are such.
async function importFrom(require_, name) {
  if (/^(node:|data:|file:|https?:)/.test(name) || require("module").builtinModules.includes(name)) {
    return import(name);
  }
  const { pathToFileURL } = require("url");
  if (name.startsWith(".") || name.startsWith("/")) {
    return import(pathToFileURL(path.resolve(process.cwd(), name)).href);
  }
  return import(await resolved(require_, name));
}

async function resolved(require_, name) {
  const { pathToFileURL } = require("url");
  const [scope, rest] = [name.split("/").slice(0, name.startsWith("@") ? 2 : 1).join("/"), name];
  for (const folder of require_.resolve.paths(name) || []) {
    let about;
    try {
      about = JSON.parse(fs.readFileSync(path.join(folder, scope, "package.json"), "utf8"));
    } catch {
      continue;
    }
    const inside = "." + rest.slice(scope.length);
    const target = exported(about.exports, inside);
    if (target) return pathToFileURL(path.join(folder, scope, target)).href;
    break;
  }
  return pathToFileURL(require_.resolve(name)).href;
}

// The file that a package's `exports` names for an import.
function exported(exports, inside) {
  if (exports === undefined || exports === null) return null;
  const pick = (entry) => {
    if (typeof entry === "string") return entry;
    if (Array.isArray(entry)) return entry.map(pick).find(Boolean) || null;
    if (entry && typeof entry === "object") {
      for (const [condition, target] of Object.entries(entry)) {
        if (["node", "import", "default", "module-sync"].includes(condition)) {
          const found = pick(target);
          if (found) return found;
        }
      }
    }
    return null;
  };
  const isMap = typeof exports === "object" && Object.keys(exports).some((key) => key.startsWith("."));
  if (!isMap) return inside === "." ? pick(exports) : null;
  return inside in exports ? pick(exports[inside]) : null;
}

function isSyntax(error) {
  return error && (error instanceof SyntaxError || error.name === "SyntaxError");
}

function saidOfSyntax(error) {
  const lines = String((error && error.stack) || error).split("\n");
  const end = lines.findIndex((line) => /^\s+at /.test(line));
  const kept = (end < 0 ? lines : lines.slice(0, end)).map((line) => line.slice(0, 300));
  return kept.join("\n").trim().slice(0, 2000);
}

// The code with the escape sequences that JSON knows put back.
function restore(code) {
  const meant = { n: "\n", t: "\t", r: "\r", '"': '"', "'": "'", "\\": "\\", "/": "/" };
  return code.replace(/\\([ntr"'\\/])/g, (_, letter) => meant[letter]);
}

function pickFunction(seen, entry) {
  const top = seen.top || {};
  const exports = seen.exports() || {};
  const lookUp = (name) => {
    if (name in top && top[name] !== undefined && !seen.isForeign(name, top[name])) return top[name];
    const owner = typeof exports === "object" || typeof exports === "function" ? exports : {};
    if (Object.prototype.hasOwnProperty.call(owner, name)) return owner[name];
    return undefined;
  };
  if (entry && entry !== "main") {
    const found = lookUp(entry);
    if (typeof found === "function") return found;
    const what = found === undefined ? `there is no "${entry}"` : `"${entry}" is not a function`;
    throw new Refused("entry_not_found", `${what}; ${existing(seen)}`);
  }
  for (const name of ENTRIES) {
    const found = lookUp(name);
    if (typeof found === "function") return found;
  }
  if (typeof exports === "function") return exports;
  if (typeof exports.default === "function") return exports.default;
  if (resultOf(seen) !== undefined) return null;
  const own = ownFunctions(seen);
  if (own.length > 1) {
    throw new Refused(
      "entry_not_found",
      `the code defines several functions and none is called main; ${existing(seen)}`,
      "name one in `entry`",
    );
  }
  return own.length ? top[own[0]] : null;
}

function resultOf(seen) {
  const top = seen.top || {};
  if (top.result !== undefined) return top.result;
  return globalThis.result;
}

function ownFunctions(seen) {
  const top = seen.top || {};
  return Object.keys(top).filter((name) => {
    const value = top[name];
    if (typeof value !== "function" || seen.isForeign(name, value)) return false;
    return !/^class\b/.test(Function.prototype.toString.call(value)) && value.name === name;
  });
}

function existing(seen) {
  const own = ownFunctions(seen).sort();
  if (!own.length) return "the code defines no function";
  const more = own.length > 20 ? ` and ${own.length - 20} more` : "";
  return `the code defines ${own.slice(0, 20).join(", ")}${more}`;
}

async function run(job) {
  const seen = await evaluate(job);
  const answer = { restored: Boolean(seen.restored) };
  const entry = pickFunction(seen, job.entry);
  let value;
  if (entry) {
    if (entry.length < 2) {
      value = await entry(job.args);
    } else if (entry.length === job.args.length) {
      value = await entry(...job.args);
    } else {
      throw new Refused(
        "exception",
        `TypeError: ${entry.name} takes ${entry.length} arguments, and \`args\` has ${job.args.length} values`,
      );
    }
  } else {
    value = await resultOf(seen);
  }
  answer.data = encode(value);
  return answer;
}

// The code's own frames.
function trace(error) {
  let text;
  try {
    if (error instanceof Error || (error && typeof error.stack === "string")) {
      const lines = String(error.stack).split("\n");
      text = lines
        .filter((line) => !line.includes(HERE) && !/\bat .*node:(internal|vm)/.test(line))
        .map((line) => line.replaceAll(process.cwd() + path.sep, "").slice(0, 1500))
        .join("\n");
      if (error.cause !== undefined) text += `\ncaused by: ${String(error.cause).slice(0, 500)}`;
    } else {
      text = `thrown: ${typeof error === "object" ? JSON.stringify(error) : String(error)}`;
    }
  } catch {
    text = "an error whose text cannot be had";
  }
  return text.length > LONGEST_TRACE ? `${text.slice(0, LONGEST_TRACE)}\n[the rest left out]` : text;
}

function failure(error) {
  if (error instanceof Refused) return error.said;
  if (error instanceof NotSerializable) return { kind: "not_serializable", message: error.message };
  return { kind: kindOf(error), message: trace(error) };
}

// What was met: a limit, the missing network, or only the code's own fault.
function kindOf(error) {
  for (let depth = 0; error && depth < 20; depth++) {
    if (["ENOSPC", "EDQUOT", "EFBIG"].includes(error.code)) return "disk_limit";
    if (["ENETUNREACH", "EHOSTUNREACH", "EAI_AGAIN", "ENOTFOUND", "EAFNOSUPPORT"].includes(error.code)) {
      return "network_denied";
    }
    error = error.cause || (Array.isArray(error.errors) ? error.errors[0] : undefined);
  }
  return "exception";
}

function attempt(step) {
  try {
    return step();
  } catch (error) {
    return { error: failure(error) };
  }
}

function write(answer) {
  const parts = [];
  if (answer.restored !== undefined) parts.push(`"restored":${answer.restored}`);
  if (answer.data !== undefined) parts.push(`"data":${answer.data}`);
  if (answer.error) parts.push(`"error":${JSON.stringify(wellFormed(answer.error))}`);
  const bytes = Buffer.from(`{${parts.join(",")}}\n`);
  let at = 0;
  while (at < bytes.length) at += writeSync(4, bytes, at);
}

function wellFormed(said) {
  const kept = {};
  for (const [key, text] of Object.entries(said)) {
    if (text !== undefined) kept[key] = String(text).replace(LONE, "\ufffd");
  }
  return kept;
}

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

// What was printed into a full pipe waits in this process; `then` comes when it is out.
function flushed(streams, then) {
  const waiting = streams.filter((stream) => stream.writableLength > 0 && !stream.destroyed);
  if (!waiting.length) return then();
  let left = waiting.length;
  const one = () => {
    left -= 1;
    if (left === 0) then();
  };
  for (const stream of waiting) {
    stream.once("error", one);
    Writable.prototype.write.call(stream, "", one);
  }
}

function main() {
  const job = JSON.parse(fs.readFileSync(3, "utf8"));
  const leave = process.reallyExit.bind(process);
  let over = false;
  const finish = (answer) => {
    if (over) return;
    over = true;
    write(answer);
    flushed([process.stdout, process.stderr], () => leave(0));
  };
  // A promise that nobody waits for, or a callback, fails like the function itself.
  process.on("uncaughtException", (error) => finish({ error: failure(error) }));
  process.on("unhandledRejection", (error) => finish({ error: failure(error) }));
  let asked = false;
  const exit = process.exit;
  process.exit = (code) => {
    asked = true;
    return exit.call(process, code);
  };
  process.on("exit", (code) => {
    if (code) finish({ error: { kind: "exception", message: `the code ended with process.exit(${code})` } });
    if (asked) finish(attempt(() => ({ data: encode(globalThis.result) })));
    finish({
      error: {
        kind: "exception",
        message: "the code ended before its function returned: it waits for something that nothing will bring",
      },
    });
  });
  process.argv = [process.argv[0], "script.js"];
  run(job).then(finish, (error) => finish({ error: failure(error) }));
}

main();
