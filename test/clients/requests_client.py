"""requests_client.py HTTP-BASE HTTPS-BASE: Python requests.

Proxy and roots come from the environment: HTTP_PROXY and HTTPS_PROXY with
their credentials, REQUESTS_CA_BUNDLE.
"""

import hashlib
import sys

import requests

VERSIONS = {10: "HTTP/1.0", 11: "HTTP/1.1"}

with requests.Session() as session:
    for base in sys.argv[1:3]:

        def report(step, response):
            response.raise_for_status()
            digest = hashlib.sha256(response.content).hexdigest()
            version = VERSIONS[response.raw.version]
            print(base.split(":")[0], step, response.status_code, digest, version)

        report("get", session.get(base + "/get", params="q=a%20b&n=1"))
        report("post", session.post(base + "/post", data="name=J%C3%BCrgen&x=1"))
        report("big", session.get(base + "/big"))
        report("gzip", session.get(base + "/gzip"))
        report("redirect", session.get(base + "/redirect"))
        report("again", session.get(base + "/get?q=again"))
