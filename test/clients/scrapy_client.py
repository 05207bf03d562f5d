"""scrapy_client.py HTTP-BASE HTTPS-BASE: a spider.

Scrapy reads http_proxy and https_proxy with their credentials. It does not
verify certificates, so it needs no roots.
"""

import hashlib
import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class Spider(scrapy.Spider):
    name = "client"
    custom_settings = {
        "CONCURRENT_REQUESTS": 1,
        "LOG_LEVEL": "ERROR",
        "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7",
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    }

    def start_requests(self):
        for base in sys.argv[1:3]:

            def get(step, path):
                return self.request(base, step, base + path)

            yield get("get", "/get?q=a%20b&n=1")
            yield self.request(base, "post", base + "/post", method="POST", body="name=J%C3%BCrgen&x=1")
            yield get("big", "/big")
            yield get("gzip", "/gzip")
            yield get("redirect", "/redirect")
            yield get("again", "/get?q=again")

    def request(self, base, step, url, **options):
        about = {"scheme": base.split(":")[0], "step": step}
        return scrapy.Request(url, self.report, cb_kwargs=about, dont_filter=True, **options)

    def report(self, response, scheme, step):
        digest = hashlib.sha256(response.body).hexdigest()
        print(scheme, step, response.status, digest, response.protocol)


process = CrawlerProcess()
process.crawl(Spider)
process.start()
