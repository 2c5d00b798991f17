// A channel in JavaScript: it gives back what it is sent. Runs inside the sandbox, in one instance that is kept.
import { get as config } from 'zeroclaw:plugin/config@0.1.0';
import { inboundPending, inboundPoll } from 'zeroclaw:plugin/inbound@0.1.0';
import { get as secret } from 'zeroclaw:plugin/secrets@0.1.0';
import { logRecord } from 'zeroclaw:plugin/logging@0.1.0';

let greeting = '';
let calls = 0;
const kept = [];

export const pluginInfo = {
  pluginName: () => 'parrot',
  pluginVersion: () => '1.0.0',
};

const done = () => undefined;

export const channel = {
  name: () => 'parrot',
  configure() {
    ({ greeting } = JSON.parse(config()));
    if (!greeting) throw 'say how to greet';
  },
  getChannelCapabilities: () => ({
    healthCheck: true,
    selfHandle: true,
    multiMessageDelayMs: true,
    sendDraft: true,
    redactMessage: true,
    requestApproval: true,
    requestChoice: true,
    webhookIngress: true,
  }),
  send(message) {
    calls += 1;
    if (message.content === 'fail') throw 'no wires today';
    kept.push(message);
    logRecord('info', { functionName: 'send', action: 'outbound', message: `${calls}: ${message.attachments.length}` });
  },
  pollMessage() {
    const queued = inboundPending() ? inboundPoll() : undefined;
    if (queued) return { ...queued, content: `${greeting}, ${queued.content}`, attachments: [] };
    const sent = kept.shift();
    return sent && {
      id: `${calls}`,
      sender: 'parrot',
      replyTarget: sent.recipient,
      content: sent.content,
      channel: 'forged',
      timestamp: 2 ** 40,
      threadTs: sent.threadTs,
      attachments: sent.attachments,
      subject: sent.subject,
    };
  },
  healthCheck: () => secret('token') === 'hush',
  selfHandle: () => '@parrot',
  selfAddressedMention: done,
  dropSelfMessage: () => true,
  startTyping: done,
  stopTyping: done,
  supportsDraftUpdates: () => true,
  supportsMultiMessageStreaming: () => true,
  multiMessageDelayMs: () => 250,
  sendDraft: (message) => (message.content === 'none' ? undefined : `draft of ${message.content}`),
  updateDraft: done,
  updateDraftProgress: done,
  finalizeDraft: done,
  cancelDraft: done,
  addReaction: done,
  removeReaction: done,
  pinMessage: done,
  unpinMessage: done,
  redactMessage(channelId, messageId, reason) {
    throw `${channelId} ${messageId} ${reason ?? 'without a reason'}`;
  },
  requestApproval(recipient, request) {
    if (request.toolName === 'unknown') return undefined;
    if (request.rawArguments == null) return { tag: 'deny' };
    return { tag: 'deny-with-edit', val: `${recipient}: ${request.toolName} ${request.rawArguments}` };
  },
  requestChoice: (question, choices, seconds) => choices[Number(seconds)],
  supportsFreeFormAsk: () => true,
  webhookPath: () => 'parrot',
  parseWebhook(request) {
    const [, token] = request.headers.find(([name]) => name === 'x-token') ?? [];
    if (token !== secret('token')) throw { tag: 'unauthorized', val: `${request.method} ${request.query}` };
    if (request.query) return { tag: 'reply', val: request.query };
    const content = String.fromCharCode(...request.body);
    const message = { id: '1', sender: 'hook', replyTarget: 'r', content, channel: 'c', timestamp: 5, attachments: [] };
    return { tag: 'messages', val: [message, { ...message, id: '2', subject: 'again' }] };
  },
};
