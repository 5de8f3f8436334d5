// OpenAI's own SDK for JavaScript on /v1/realtime: a client secret, then a transcription session with it.
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

const [url, key, file] = process.argv.slice(2);
const own = new OpenAI({ apiKey: key, baseURL: `${url}/v1` });
const secret = await own.realtime.clientSecrets.create({ session: { type: 'transcription' } });
const client = new OpenAI({ apiKey: secret.value, baseURL: `${url}/v1` });
const pcm = readFileSync(file);
const live = await OpenAIRealtimeWS.create(client, { intent: 'transcription' });

live.on('error', (error) => {
  console.error(error);
  process.exit(1);
});
live.on('session.created', () => {
  live.send({ type: 'session.update', session: { type: 'transcription', audio: { input: { turn_detection: null } } } });
});
live.on('session.updated', () => {
  for (let start = 0; start < pcm.length; start += 4800) {
    live.send({ type: 'input_audio_buffer.append', audio: pcm.subarray(start, start + 4800).toString('base64') });
  }
  live.send({ type: 'input_audio_buffer.commit' });
});
let deltas = '';
live.on('conversation.item.input_audio_transcription.delta', (event) => (deltas += event.delta));
live.on('conversation.item.input_audio_transcription.completed', (event) => {
  console.log(JSON.stringify({ deltas, transcript: event.transcript, expires: secret.expires_at }));
  live.close();
});
