// https_client.mjs HTTP-BASE HTTPS-BASE [alone]: Node's own http and https, through
// agents, or with "alone" through those that Node has by itself.
//
// With NODE_USE_ENV_PROXY=1 these read HTTP_PROXY and HTTPS_PROXY from Node 22.21
// and 24.5 on; before that they use no proxy. Roots come from NODE_EXTRA_CA_CERTS.
import http from "node:http";
import https from "node:https";
import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { HttpProxyAgent } from "http-proxy-agent";
import { HttpsProxyAgent } from "https-proxy-agent";

const own = process.argv[4] === "alone";
const schemes = {
  "http:": { get: http.request, agent: own ? http.globalAgent : new HttpProxyAgent(process.env.HTTP_PROXY, { keepAlive: true }) },
  "https:": { get: https.request, agent: own ? https.globalAgent : new HttpsProxyAgent(process.env.HTTPS_PROXY, { keepAlive: true }) },
};

function ask(url, { body, ...options } = {}) {
  const { get, agent } = schemes[new URL(url).protocol];
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, ...options }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => resolve({ response, data: Buffer.concat(chunks) }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

for (const base of process.argv.slice(2, 4)) {
  const report = async (step, path, options) => {
    let { response, data } = await ask(base + path, options);
    if (response.headers.location) {
      ({ response, data } = await ask(new URL(response.headers.location, base).href));
    }
    if (step === "gzip") {
      data = gunzipSync(data); // fails when somebody on the way has done it already
    }
    const digest = createHash("sha256").update(data).digest("hex");
    console.log(base.split(":")[0], step, response.statusCode, digest, "HTTP/" + response.httpVersion);
  };
  await report("get", "/get?q=a%20b&n=1");
  await report("post", "/post", { method: "POST", body: "name=J%C3%BCrgen&x=1" });
  await report("big", "/big");
  await report("gzip", "/gzip", { headers: { "Accept-Encoding": "gzip" } });
  await report("redirect", "/redirect");
  await report("again", "/get?q=again");
}
for (const { agent } of Object.values(schemes)) {
  agent.destroy();
}
