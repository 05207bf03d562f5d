// needle_client.mjs HTTP-BASE HTTPS-BASE: needle.
//
// It reads HTTP_PROXY and HTTPS_PROXY with their credentials, and asks the proxy
// for https with an absolute address instead of CONNECT: the TLS of those
// requests is between abide and the origin alone.
import { createHash } from "node:crypto";
import needle from "needle";

for (const base of process.argv.slice(2, 4)) {
  const report = async (step, method, path, data = null, options = {}) => {
    const response = await needle(method, base + path, data, { parse: false, follow_max: 3, ...options });
    const digest = createHash("sha256").update(response.body).digest("hex");
    console.log(base.split(":")[0], step, response.statusCode, digest, "HTTP/" + response.httpVersion);
  };
  await report("get", "get", "/get?q=a%20b&n=1");
  await report("post", "post", "/post", "name=J%C3%BCrgen&x=1");
  await report("big", "get", "/big");
  await report("gzip", "get", "/gzip", null, { compressed: true });
  await report("redirect", "get", "/redirect");
  await report("again", "get", "/get?q=again");
}
// needle leaves the answers that redirect unread, and their connections open.
process.exit();
