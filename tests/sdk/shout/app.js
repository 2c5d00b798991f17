// A tool in JavaScript: the contract is WIT, not a Python interface.
import { logRecord } from 'zeroclaw:plugin/logging@0.1.0';
import { get } from 'zeroclaw:plugin/secrets@0.1.0';

export const pluginInfo = {
  pluginName: () => 'shout',
  pluginVersion: () => '1.0.0',
};

export const tool = {
  name: () => 'shout',
  description: () => 'Says it louder.',
  parametersSchema: () =>
    JSON.stringify({ type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }),

  execute(args) {
    const { text, __config: config = {} } = JSON.parse(args);
    logRecord('warn', {
      functionName: 'execute',
      action: 'list-action',
      outcome: 'failure',
      durationMs: 7,
      attrs: '{"n":1}',
      message: 'shouting',
    });
    switch (text) {
      case 'secret':
        return { success: true, output: get('api_key') };
      case 'fail':
        return { success: false, output: 'half', error: 'on purpose' };
      case 'throw':
        throw 'thrown on purpose';
      default:
        return { success: true, output: text.toUpperCase() + (config.mark ?? '') };
    }
  },
};
