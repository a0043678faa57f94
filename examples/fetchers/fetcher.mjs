// A fetcher for `recrawl serve` with nothing but Node's own modules.
// Usage: RECRAWL_KEY=rk_... node fetcher.mjs http://127.0.0.1:8377/v1/corpora/news [ROUNDS]
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const [base, rounds = "Infinity"] = process.argv.slice(2);
const BODY_BYTES_MAX = 5 << 20;

// Repeats a request that got no answer: the same Idempotency-Key has no second effect.
async function call(path, rows) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": randomUUID() };
  if (process.env.RECRAWL_KEY) headers.Authorization = `Bearer ${process.env.RECRAWL_KEY}`;
  for (let wait = 1000; ; wait = Math.min(2 * wait, 60_000)) {
    try {
      const answer = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(rows) });
      if (answer.ok) return await answer.json();
      if (answer.status < 500 && answer.status !== 429) {
        console.error(answer.status, await answer.text());
        process.exit(1);
      }
    } catch {
      // no answer
    }
    await sleep(wait);
  }
}

async function readBody(answer) {
  const pieces = [];
  let size = 0;
  for await (const piece of answer.body ?? []) {
    pieces.push(piece);
    size += piece.length;
    if (size > BODY_BYTES_MAX) break;
  }
  return Buffer.concat(pieces).subarray(0, BODY_BYTES_MAX);
}

// Returns what became of an order; status 0 means that there was no answer.
async function fetchPage({ handle, fetch_url, etag, last_modified }) {
  const headers = { "User-Agent": "example-bot/1.0" };
  if (etag) headers["If-None-Match"] = etag;
  if (last_modified) headers["If-Modified-Since"] = last_modified;
  try {
    const answer = await fetch(fetch_url, { headers, signal: AbortSignal.timeout(30_000) });
    const outcome = { handle, status: answer.status };
    if (answer.headers.has("etag")) outcome.etag = answer.headers.get("etag");
    if (answer.headers.has("last-modified")) outcome.last_modified = answer.headers.get("last-modified");
    if (answer.status === 200) {
      outcome.body_base64 = (await readBody(answer)).toString("base64");
      outcome.content_type = answer.headers.get("content-type");
    }
    return outcome;
  } catch {
    return { handle, status: 0 };
  }
}

for (let round = 0; round < Number(rounds); round++) {
  const { orders } = await call("/orders?n=10&wait=10");
  if (orders.length === 0) continue;
  const outcomes = await Promise.all(orders.map(fetchPage));
  const { counts } = await call("/outcomes", outcomes);
  console.log(`${outcomes.length} pages fetched, of which done: ${counts.done ?? 0}`);
}
