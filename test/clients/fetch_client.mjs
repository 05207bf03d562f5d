// fetch_client.mjs HTTP-BASE HTTPS-BASE: the fetch that Node has built in.
//
// With NODE_USE_ENV_PROXY=1 it reads HTTP_PROXY and HTTPS_PROXY from Node 22.21
// and 24 on; before that it uses no proxy. Roots are Node's: NODE_EXTRA_CA_CERTS.
import { createHash } from "node:crypto";

for (const base of process.argv.slice(2, 4)) {
  const report = async (step, path, options = {}) => {
    const response = await fetch(base + path, options);
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
