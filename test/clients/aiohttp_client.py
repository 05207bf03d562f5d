"""aiohttp_client.py HTTP-BASE HTTPS-BASE [alone]: aiohttp.

It reads the proxy from the environment when told to by trust_env, which "alone"
does not. Its roots
are OpenSSL's: SSL_CERT_FILE.
"""

import asyncio
import hashlib
import sys

import aiohttp
import yarl


async def main():
    async with aiohttp.ClientSession(trust_env="alone" not in sys.argv) as session:
        for base in sys.argv[1:3]:

            async def report(step, method, path, **options):
                url = yarl.URL(base + path, encoded=True)
                async with session.request(method, url, **options) as response:
                    response.raise_for_status()
                    digest = hashlib.sha256(await response.read()).hexdigest()
                    version = "HTTP/%d.%d" % response.version
                    print(base.split(":")[0], step, response.status, digest, version)

            await report("get", "GET", "/get?q=a%20b&n=1")
            await report("post", "POST", "/post", data="name=J%C3%BCrgen&x=1")
            await report("big", "GET", "/big")
            await report("gzip", "GET", "/gzip")
            await report("redirect", "GET", "/redirect")
            await report("again", "GET", "/get?q=again")


asyncio.run(main())
