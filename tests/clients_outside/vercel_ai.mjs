// Vercel's ai with its providers for OpenAI and Deepgram: a recording written down, with the times of words; a text spoken.
import { readFileSync } from 'node:fs';
import { createDeepgram } from '@ai-sdk/deepgram';
import { createOpenAI } from '@ai-sdk/openai';
import { experimental_generateSpeech as speak, experimental_transcribe as transcribe } from 'ai';

const [url, key, file] = process.argv.slice(2);
const audio = readFileSync(file);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
// Its provider for Deepgram has no address of its own: its fetch has.
const deepgram = createDeepgram({
  apiKey: key,
  fetch: (address, options) => fetch(String(address).replace('https://api.deepgram.com', url), options),
});

const began = Date.now();
const whole = await transcribe({
  model: openai.transcription('gpt-4o-transcribe'),
  audio,
  providerOptions: { openai: { responseFormat: 'verbose_json', timestampGranularities: ['word'], language: 'en' } },
});
const took = Date.now() - began;
const other = await transcribe({ model: deepgram.transcription('nova-3'), audio });
const spoken = await speak({ model: openai.speech('gpt-4o-mini-tts'), text: 'The tide comes in at nine.', voice: 'alloy' });
console.log(JSON.stringify({
  text: whole.text, segments: whole.segments, seconds: whole.durationInSeconds, deepgram: other.text,
  sound: spoken.audio.uint8Array.length, took,
}));
