// A tool in JavaScript. Runs inside the sandbox.
import { logRecord } from 'zeroclaw:plugin/logging@0.1.0';
import { get } from 'zeroclaw:plugin/secrets@0.1.0';

export const pluginInfo = {
  pluginName: () => 'shout',
  pluginVersion: () => '1.0.0',
};

export const tool = {
  name: () => 'shout',
  description: () => 'Says it louder.',
  parametersSchema: () => JSON.stringify({ type: 'object', properties: { text: { type: 'string' } } }),
  execute(args) {
    const request = JSON.parse(args);
    if (request.fail) throw 'too loud';
    let secret;
    try {
      secret = get('token');
    } catch (error) {
      secret = error.payload;
    }
    logRecord('info', { functionName: 'execute', action: 'note', message: request.text });
    return { success: true, output: JSON.stringify([request.text.toUpperCase(), secret]) };
  },
};
