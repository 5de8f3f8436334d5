// @deepgram/sdk against a daemon: node deepgram_sdk.mjs URL KEY FILE
import { createReadStream, readFileSync } from "node:fs";
import { DeepgramClient } from "@deepgram/sdk";

const [url, apiKey, file] = process.argv.slice(2);
const socket = url.replace("http", "ws");
const environment = { base: url, production: socket, agent: socket, agentRest: url };
const client = new DeepgramClient({ apiKey, environment });
const data = readFileSync(file);

async function streamed(connection, take) {
  const texts = [];
  const over = new Promise((resolve) => connection.on("close", resolve));
  connection.on("message", (message) => texts.push(...take(message)));
  connection.connect();
  await connection.waitForOpen();
  for (let at = 0; at < data.length; at += 4000) connection.sendMedia(data.subarray(at, at + 4000));
  connection.sendCloseStream({ type: "CloseStream" });
  await over;
  return texts.join(" ");
}

const live = await streamed(
  await client.listen.v1.connect({ model: "nova-3", language: "en", punctuate: "true", interim_results: "true", reconnectAttempts: 0 }),
  (m) => (m.type === "Results" && m.is_final ? [m.channel.alternatives[0].transcript] : []),
);
const turn = await streamed(
  await client.listen.v2.connect({ model: "flux-general-en", reconnectAttempts: 0 }),
  (m) => (m.type === "TurnInfo" && m.event === "EndOfTurn" ? [m.transcript] : []),
);
const answer = await client.listen.v1.media.transcribeFile(createReadStream(file), { model: "nova-3" });
const spoken = await client.speak.v1.audio.generate({ text: "The tide comes in at nine.", model: "aura-2-thalia-en" });
const sound = (await spoken.arrayBuffer()).byteLength;
const turns = await client.speak.v2.connect({ model: "flux-alexis-en", encoding: "linear16", sample_rate: "24000", reconnectAttempts: 0 });
const said = await new Promise((resolve) => {
  const types = [];
  turns.on("message", (message) => types.push(message.type ?? "audio"));
  turns.on("close", () => resolve([...new Set(types)]));
  turns.connect();
  turns.waitForOpen().then(() => {
    turns.sendSpeak({ type: "Speak", text: "At nine." });
    turns.sendFlush({ type: "Flush" });
    turns.sendClose({ type: "Close" });
  });
});
const models = await client.manage.v1.models.list();
console.log(JSON.stringify({ live, turn, file: answer.results.channels[0].alternatives[0].transcript, sound, said, stt: models.stt.length }));
process.exit(0);
