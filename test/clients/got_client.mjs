// got_client.mjs HTTP-BASE HTTPS-BASE [alone]: got with an agent for each scheme, as
// its documentation has it for proxies: it reads no variable. With "alone" the agents
// are Node's own, which do with NODE_USE_ENV_PROXY=1 from Node 22.21 and 24.5 on.
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
const options = { responseType: "buffer", retry: { limit: 0 } };
const client = got.extend(process.argv[4] === "alone" ? options : { agent, ...options });

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
