// Holds events, one a line, against the schemas of OpenAI's agents for JavaScript. Prints those that fail.
import { readFileSync } from 'node:fs';
import { realtimeServerEventSchema } from './node_modules/@openai/agents-realtime/dist/openaiRealtimeEvents.mjs';

const failed = [];
for (const line of readFileSync(process.argv[2], 'utf8').trim().split('\n')) {
  const event = JSON.parse(line);
  const parsed = realtimeServerEventSchema.safeParse(event);
  if (!parsed.success) failed.push({ type: event.type, issues: parsed.error.issues });
}
console.log(JSON.stringify(failed));
