// A tool in JavaScript. Runs inside the sandbox.
import { logRecord } from 'zeroclaw:plugin/logging@0.1.0';
import { get as secret } from 'zeroclaw:plugin/secrets@0.1.0';
import { delete as remove, get, put } from 'zeroclaw:plugin/state@0.1.0';

export const pluginInfo = {
  pluginName: () => 'shout',
  pluginVersion: () => '1.0.0',
};

function tell(call, ...values) {
  let found;
  try {
    found = call(...values);
  } catch (error) {
    return error.payload;
  }
  if (found?.value) return `${found.value.length}:${found.value.reduce((sum, byte) => sum + byte, 0)}:${found.revision}`;
  return found ?? 'none';
}

// The same as trip.c and probe.py do, so that their answers can be compared.
function trip() {
  logRecord('error', {
    functionName: 'execute',
    action: 'memory-audit',
    outcome: 'failure',
    durationMs: 2 ** 53 - 1, // this toolchain knows no larger whole number
    attrs: '{"n":1}',
    message: 'grüß ☃ 😀',
  });
  const data = Uint8Array.from({ length: 256 }, (_, n) => n);
  const first = tell(get, 'k');
  const written = tell(put, 'k', data, undefined);
  const conflict = tell(put, 'k', data, undefined);
  const entry = tell(get, 'k');
  const again = tell(put, 'k', data, written);
  const deleted = tell(remove, 'k', again) === 'none' ? 'ok' : 'failed';
  return [first, written, conflict, entry, again, deleted, tell(get, 'k'), tell(get, 'no key'),
    tell(secret, 'token'), tell(secret, 'missing')].join(' ');
}

export const tool = {
  name: () => 'shout',
  description: () => 'Says it louder.',
  parametersSchema: () => JSON.stringify({ type: 'object', properties: { text: { type: 'string' } } }),
  execute(args) {
    const request = JSON.parse(args);
    if (request.do === 'fail') throw 'on purpose';
    if (request.do === 'half') return { success: false, output: 'half', error: 'on purpose' };
    if (request.do === 'trip') return { success: true, output: trip() };
    if (request.do === 'loop') for (;;);
    if (request.do === 'hog') for (const kept = []; ; ) kept.push(new Uint8Array(1 << 20).fill(1));
    if (request.do === 'raise') throw new TypeError('bad weather');
    return { success: true, output: request.text.toUpperCase() };
  },
};
