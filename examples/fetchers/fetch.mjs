// Fetch pages for a corpus that `recrawl serve` shares, with Node 18 or later and no packages.
//
//     node fetch.mjs http://127.0.0.1:8377/v1/corpora/news [ROUNDS]
//
// The environment variable RECRAWL_KEY is the API key, if the corpus has keys.
import { randomUUID } from "node:crypto";

const [base, rounds = "Infinity"] = process.argv.slice(2);
const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// Send a request until it is answered: a repeated one has no second effect.
async function post(path, key, rows) {
  const headers = {
    "Content-Type": "application/json",
    "Idempotency-Key": key,
    ...(process.env.RECRAWL_KEY && { Authorization: `Bearer ${process.env.RECRAWL_KEY}` }),
  };
  for (;;) {
    try {
      const body = rows && JSON.stringify(rows);
      const answer = await fetch(base + path, { method: "POST", headers, body });
      if (answer.ok) return await answer.json();
      if (answer.status < 500 && answer.status !== 429) {
        console.error(await answer.text());
        process.exit(1);
      }
    } catch {
      // The server cannot be reached now.
    }
    await sleep(1);
  }
}

async function fetchPage(order) {
  const headers = order.etag === null ? {} : { "If-None-Match": order.etag };
  try {
    const answer = await fetch(order.fetch_url, { headers, signal: AbortSignal.timeout(10_000) });
    return {
      handle: order.handle,
      status: answer.status,
      etag: answer.headers.get("etag"),
      content_type: answer.headers.get("content-type"),
      body_base64: Buffer.from(await answer.arrayBuffer()).toString("base64"),
    };
  } catch {
    return { handle: order.handle, status: 0 }; // no answer
  }
}

for (let round = 0; round < Number(rounds); round++) {
  const key = randomUUID();
  const { orders } = await post("/orders?n=10&wait=30", key);
  const outcomes = await Promise.all(orders.map(fetchPage));
  const { counts } = await post("/outcomes", key, outcomes);
  console.log(outcomes.length, "pages fetched:", JSON.stringify(counts));
}
