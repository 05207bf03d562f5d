// axios_client.mjs HTTP-BASE HTTPS-BASE: axios with what it does by itself.
//
// It reads HTTP_PROXY and HTTPS_PROXY with their credentials. Roots are Node's:
// NODE_EXTRA_CA_CERTS.
import http from "node:http";
import https from "node:https";
import { createHash } from "node:crypto";
import axios from "axios";

const client = axios.create({ responseType: "arraybuffer" });

for (const base of process.argv.slice(2, 4)) {
  const report = async (step, path, options = {}) => {
    const response = await client.request({ url: base + path, ...options });
    const digest = createHash("sha256").update(response.data).digest("hex");
    const version = "HTTP/" + response.request.res.httpVersion;
    console.log(base.split(":")[0], step, response.status, digest, version);
  };
  await report("get", "/get?q=a%20b&n=1");
  await report("post", "/post", { method: "POST", data: "name=J%C3%BCrgen&x=1" });
  await report("big", "/big");
  await report("gzip", "/gzip");
  await report("redirect", "/redirect");
  await report("again", "/get?q=again");
}
http.globalAgent.destroy();
https.globalAgent.destroy();
