// OpenAI's agents for JavaScript: someone speaks, is answered with a long story, speaks over it, is answered again.
// Every event is held against the schema that the SDK itself has. Prints what happened, and when.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { RealtimeAgent, RealtimeSession } from '@openai/agents-realtime';
import { realtimeServerEventSchema } from './node_modules/@openai/agents-realtime/dist/openaiRealtimeEvents.mjs';

const [url, key, file] = process.argv.slice(2);
const pcm = readFileSync(file);
const PIECE = 4800; // 100 ms

const agent = new RealtimeAgent({ name: 'Harbour', instructions: 'Be brief.' });
const session = new RealtimeSession(agent, { transport: 'websocket', model: 'gpt-realtime' });
const told = { invalid: [], errors: [], kinds: {}, texts: [], interruptions: 0 };
let audioBytes = 0, firstAudio, interruptedAt, done = 0;

session.transport.on('*', (event) => {
  told.kinds[event.type] = (told.kinds[event.type] ?? 0) + 1;
  const parsed = realtimeServerEventSchema.safeParse(event);
  if (!parsed.success) told.invalid.push({ type: event.type, why: JSON.stringify(parsed.error.issues).slice(0, 300) });
  if (event.type === 'response.done') {
    done += 1;
    told.texts.push([event.response.status, event.response.output[0]?.content?.[0]?.transcript]);
  }
});
session.on('error', ({ error }) => told.errors.push(JSON.stringify(error).slice(0, 500)));
session.on('audio', ({ data }) => {
  audioBytes += data.byteLength;
  firstAudio ??= Date.now();
});
session.on('audio_interrupted', () => {
  told.interruptions += 1;
  interruptedAt ??= Date.now();
});

async function speak() {
  for (let start = 0; start < pcm.length; start += PIECE) {
    session.sendAudio(new Uint8Array(pcm.subarray(start, start + PIECE)).buffer);
    await sleep(100);
  }
}
const until = async (what, holds) => {
  for (let i = 0; i < 600 && !holds(); i += 1) await sleep(50);
  if (!holds()) throw new Error(`${what} never came: ${JSON.stringify(told)}`);
};

await session.connect({ apiKey: key, url: `${url}/v1/realtime?model=gpt-realtime` });
await speak(); // four seconds of speech, a second of silence
const ended = Date.now();
await until('an answer', () => firstAudio);
told.answer_ms = firstAudio - ended;
await sleep(700); // the story goes on and on
const over = Date.now();
const speaking = speak();
await until('an interruption', () => interruptedAt);
told.interrupted_ms = interruptedAt - over;
await speaking;
await until('a second answer', () => done >= 2);
await until('what was said', () =>
  session.history.filter((item) => item.role === 'user' && item.content[0]?.transcript).length >= 2);
told.heard = session.history.filter((item) => item.role === 'user').map((item) => item.content[0]?.transcript);
told.audio_bytes = audioBytes;
session.close();
console.log(JSON.stringify(told));
process.exit(0);
