// OpenAI's own SDK for JavaScript on files: node openai_files.mjs URL KEY FILE
import { createReadStream } from 'node:fs';
import OpenAI from 'openai';

const [url, apiKey, file] = process.argv.slice(2);
const client = new OpenAI({ apiKey, baseURL: `${url}/v1` });
const { text } = await client.audio.transcriptions.create({ file: createReadStream(file), model: 'whisper-1' });
let streamed = '';
const events = await client.audio.transcriptions.create({ file: createReadStream(file), model: 'gpt-4o-transcribe', stream: true });
for await (const event of events) if (event.type === 'transcript.text.delta') streamed += event.delta;
const spoken = await client.audio.speech.create({ model: 'tts-1', voice: 'alloy', input: 'The tide comes in at nine.' });
const models = await client.models.list();
console.log(JSON.stringify({ text, streamed, sound: (await spoken.arrayBuffer()).byteLength, models: models.data.length }));
