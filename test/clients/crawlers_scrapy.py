"""crawlers_scrapy.py SETTINGS: crawls three sites with the settings of that file.

Two of the sites hold their requests, which are asked for first. Prints how many
answers of each status the third gave, and leaves the rest.
"""

import collections
import os
import runpy
import sys

import scrapy
from scrapy.crawler import CrawlerProcess

settings = {name: value for name, value in runpy.run_path(sys.argv[1]).items() if name.isupper()}


class Spider(scrapy.Spider):
    name = "three"
    custom_settings = {**settings, "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False}

    def start_requests(self):
        self.statuses = collections.Counter()
        for number in range(40):
            for host in ("held-1.test", "held-2.test"):
                yield scrapy.Request(f"https://{host}/{number}", self.ignore, errback=self.ignore)
        for number in range(12):
            yield scrapy.Request(f"https://api.test/{number}", self.count, meta={"handle_httpstatus_all": True})

    def ignore(self, _):
        pass

    def count(self, response):
        self.statuses[response.status] += 1
        if self.statuses.total() == 12:
            print(dict(self.statuses), flush=True)
            os._exit(0)  # the held requests would keep Scrapy for an hour


process = CrawlerProcess()
process.crawl(Spider)
process.start()
