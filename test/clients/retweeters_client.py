"""retweeters_client.py TWEET…: everybody who has retweeted them.

Tweepy's own client and paginator, three tweets at once. The token is none, and
nothing here waits: the first 429 is an exception and the end.
"""

import collections
import concurrent.futures
import hashlib
import sys
import time

import tweepy

came_by = collections.Counter()
began = time.monotonic()


def retweeters(tweet):
    client = tweepy.Client(bearer_token="dummy", wait_on_rate_limit=False)
    client.session.hooks["response"].append(
        lambda response, **_: came_by.update([response.headers.get("Abide-Token")])
    )
    assert client.get_tweet(tweet).data.id == int(tweet)
    users = []
    for page in tweepy.Paginator(client.get_retweeters, tweet, max_results=100):
        users += [user.username for user in page.data]
    digest = hashlib.sha256(" ".join(users).encode()).hexdigest()
    return f"{tweet} {len(users)} {digest}"


with concurrent.futures.ThreadPoolExecutor(3) as several:
    for line in several.map(retweeters, sys.argv[1:]):
        print(line)
print(*sorted(label or "none" for label in came_by))
print(time.monotonic() - began)
