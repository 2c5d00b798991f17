// The same tool as surfer.py, in another language. Runs inside the sandbox.
import { handle } from 'wasi:http/outgoing-handler@0.2.12';
import { Fields, IncomingBody, OutgoingBody, OutgoingRequest, RequestOptions, httpErrorCode } from 'wasi:http/types@0.2.12';

const KNOWN = ['get', 'head', 'post', 'put'];
const SCHEMES = { http: 'HTTP', https: 'HTTPS' };
const DROP = Symbol.dispose || Symbol.for('dispose');
const kept = [];

const bytesOf = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const textOf = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
const gone = (resource) => resource[DROP]();
const lines = (fields) => fields.entries().map(([name, value]) => [name, textOf(value)]);
const fieldsOf = (entries) => Fields.fromList(entries.map(([name, value]) => [name, bytesOf(value)]));

function told(code) {
  const payload = code.val === undefined ? null : code.val;
  return { error: code.tag, payload: typeof payload === 'bigint' ? Number(payload) : payload };
}

function requestOf(step) {
  const request = new OutgoingRequest(fieldsOf(step.headers ?? []));
  const method = step.method ?? 'get';
  request.setMethod(KNOWN.includes(method) ? { tag: method } : { tag: 'other', val: method });
  const scheme = step.scheme === undefined ? 'http' : step.scheme;
  if (scheme !== null) request.setScheme(scheme in SCHEMES ? { tag: SCHEMES[scheme] } : { tag: 'other', val: scheme });
  request.setAuthority(step.authority ?? undefined);
  request.setPathWithQuery(step.path ?? '/');
  return request;
}

function optionsOf(step) {
  const options = new RequestOptions();
  options.setConnectTimeout(step.connect);
  options.setFirstByteTimeout(step.first_byte);
  options.setBetweenBytesTimeout(step.between_bytes);
  return options;
}

function wait(what) {
  const pollable = what.subscribe();
  pollable.block();
  gone(pollable);
}

function write(body, step) {
  const content = bytesOf(step.body.repeat(step.times ?? 1));
  const stream = body.write();
  try {
    let start = 0;
    while (start < content.length) {
      wait(stream);
      const size = Math.min(Number(stream.checkWrite()), content.length - start);
      stream.write(content.slice(start, start + size));
      start += size;
    }
    stream.flush();
  } finally {
    gone(stream);
  }
}

function read(stream, most) {
  const pieces = [];
  let size = 0;
  let ended = null;
  while (most === undefined || size < most) {
    try {
      const piece = stream.blockingRead(most === undefined ? 65536 : most - size);
      pieces.push(piece);
      size += piece.length;
    } catch (error) {
      if (error.payload.tag !== 'closed') ended = told(httpErrorCode(error.payload.val));
      break;
    }
  }
  return { pieces, size, ended };
}

function shown({ pieces, size }) {
  if (size <= 2048) return pieces.map(textOf).join('');
  let sum = 0;
  for (const piece of pieces) for (const byte of piece) sum += byte;
  return `${size}:${sum}`;
}

function fetchStep(step) {
  const request = requestOf(step);
  const body = step.body === undefined ? undefined : request.body();
  const future = handle(request, optionsOf(step));
  if (body !== undefined) {
    write(body, step);
    OutgoingBody.finish(body, step.trailers === undefined ? undefined : fieldsOf(step.trailers));
  }
  wait(future);
  let found = future.get();
  gone(future);
  while (found.tag === 'ok') {
    found = found.val;
    if (typeof found.status === 'function') break;
  }
  if (found.tag === 'err') return told(found.val);
  const response = found;
  const headers = response.headers();
  const answer = { status: response.status(), headers: lines(headers) };
  gone(headers);
  if (step.drop) {
    gone(response);
    return answer;
  }
  const incoming = response.consume();
  gone(response);
  const stream = incoming.stream();
  const came = read(stream, step.most);
  answer.body = step.quiet ? came.size : shown(came);
  if (came.ended !== null) answer.ended = came.ended;
  if (step.keep) {
    kept.push([stream, incoming]);
    return answer;
  }
  gone(stream);
  if (!step.ask_trailers) {
    gone(incoming);
    return answer;
  }
  const trailers = IncomingBody.finish(incoming);
  wait(trailers);
  const given = trailers.get().val.val;
  answer.trailers = given === undefined ? null : lines(given);
  gone(trailers);
  return answer;
}

function letGo() {
  while (kept.length) kept.pop().forEach(gone);
  return { gone: true };
}

function header(step) {
  try {
    const fields = new Fields();
    fields.append(step.name, bytesOf(step.value));
    return { fields: lines(fields), has: fields.has(step.name.toUpperCase()) };
  } catch (error) {
    return { refused: error.payload.tag };
  }
}

function work(step) {
  try {
    if (step.let_go) return letGo();
    return step.name === undefined ? fetchStep(step) : header(step);
  } catch (error) {
    if (error.payload === undefined) throw error;
    return told(error.payload);
  }
}

export const pluginInfo = { pluginName: () => 'surfer', pluginVersion: () => '1.0.0' };

export const tool = {
  name: () => 'surfer',
  description: () => 'Makes HTTP requests.',
  parametersSchema: () => '{"type": "object"}',
  execute: (args) => ({ success: true, output: JSON.stringify(JSON.parse(args).steps.map(work)), error: undefined }),
};
