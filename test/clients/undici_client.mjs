// undici_client.mjs HTTP-BASE HTTPS-BASE [ProxyAgent | alone]: undici's fetch, through
// an EnvHttpProxyAgent, a ProxyAgent, or with "alone" what undici has by itself: Node's
// own dispatcher where that reads the environment, else none.
//
// EnvHttpProxyAgent reads HTTP_PROXY and HTTPS_PROXY with their credentials, as
// Node's own fetch does from Node 24 on. It sends CONNECT for http too. Roots are
// Node's: NODE_EXTRA_CA_CERTS.
import { createHash } from "node:crypto";
import { EnvHttpProxyAgent, ProxyAgent, fetch, getGlobalDispatcher } from "undici";

const dispatchers = {
  ProxyAgent: () => new ProxyAgent(process.env.HTTPS_PROXY),
  alone: getGlobalDispatcher,
};
const dispatcher = (dispatchers[process.argv[4]] ?? (() => new EnvHttpProxyAgent()))();

for (const base of process.argv.slice(2, 4)) {
  const report = async (step, path, options = {}) => {
    const response = await fetch(base + path, { dispatcher, ...options });
    const digest = createHash("sha256").update(Buffer.from(await response.arrayBuffer())).digest("hex");
    // fetch does not tell the version of HTTP.
    console.log(base.split(":")[0], step, response.status, digest, "-");
  };
  await report("get", "/get?q=a%20b&n=1");
  await report("post", "/post", { method: "POST", body: "name=J%C3%BCrgen&x=1" });
  await report("big", "/big");
  await report("gzip", "/gzip");
  await report("redirect", "/redirect");
  await report("again", "/get?q=again");
}
await dispatcher.close();
