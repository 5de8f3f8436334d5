// @elevenlabs/elevenlabs-js against a daemon: node elevenlabs.mjs URL KEY FILE TEXT
import { createReadStream } from "node:fs";
import { ElevenLabsClient } from "@elevenlabs/elevenlabs-js";

const [baseUrl, apiKey, file, text] = process.argv.slice(2);
const client = new ElevenLabsClient({ baseUrl, environment: baseUrl, apiKey });
const voice = "JBFqnCBsd6RMkjVDRZzb", modelId = "eleven_flash_v2_5", outputFormat = "pcm_24000";

const voices = (await client.voices.search()).voices.map((one) => one.voiceId);
let sound = 0;
for await (const piece of await client.textToSpeech.stream(voice, { text, modelId, outputFormat })) sound += piece.length;
const timed = await client.textToSpeech.convertWithTimestamps(voice, { text, modelId, outputFormat });
let streamed = "";
for await (const piece of await client.textToSpeech.streamWithTimestamps(voice, { text, modelId, outputFormat }))
  streamed += (piece.alignment?.characters ?? []).join("");
const heard = await client.speechToText.convert({ modelId: "scribe_v1", file: createReadStream(file) });
console.log(JSON.stringify({ voices, sound, timed: timed.alignment.characters.join(""), streamed, heard: heard.text }));
