// got_client.mjs HTTP-BASE HTTPS-BASE: got with an agent for each scheme, as its
// documentation has it for proxies: it reads no variable.
//
// Roots are Node's: NODE_EXTRA_CA_CERTS.
import { createHash } from "node:crypto";
import got from "got";
import { HttpProxyAgent } from "http-proxy-agent";
import { HttpsProxyAgent } from "https-proxy-agent";

const agent = {
  http: new HttpProxyAgent(process.env.HTTP_PROXY, { keepAlive: true }),
  https: new HttpsProxyAgent(process.env.HTTPS_PROXY, { keepAlive: true }),
};
const client = got.extend({ agent, responseType: "buffer", retry: { limit: 0 } });

for (const base of process.argv.slice(2, 4)) {
  const report = async (step, path, options = {}) => {
    const response = await client(base + path, options);
    const digest = createHash("sha256").update(response.body).digest("hex");
    console.log(base.split(":")[0], step, response.statusCode, digest, "HTTP/" + response.httpVersion);
  };
  await report("get", "/get?q=a%20b&n=1");
  await report("post", "/post", { method: "POST", body: "name=J%C3%BCrgen&x=1" });
  await report("big", "/big");
  await report("gzip", "/gzip");
  await report("redirect", "/redirect");
  await report("again", "/get?q=again");
}
agent.http.destroy();
agent.https.destroy();
