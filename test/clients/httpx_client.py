"""httpx_client.py HTTP-BASE HTTPS-BASE: httpx, with HTTP/2 where it is offered.

Proxy and roots come from the environment: HTTP_PROXY, HTTPS_PROXY and
SSL_CERT_FILE.
"""

import hashlib
import sys

import httpx

with httpx.Client(http2=True, follow_redirects=True, timeout=30) as client:
    for base in sys.argv[1:3]:

        def report(step, response):
            response.raise_for_status()
            digest = hashlib.sha256(response.content).hexdigest()
            print(base.split(":")[0], step, response.status_code, digest, response.http_version)

        report("get", client.get(base + "/get?q=a%20b&n=1"))
        report("post", client.post(base + "/post", content="name=J%C3%BCrgen&x=1"))
        report("big", client.get(base + "/big"))
        report("gzip", client.get(base + "/gzip"))
        report("redirect", client.get(base + "/redirect"))
        report("again", client.get(base + "/get?q=again"))
