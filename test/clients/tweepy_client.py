"""tweepy_client.py HTTP-BASE HTTPS-BASE: the sessions of Tweepy's two clients.

Tweepy calls https://api.twitter.com itself. What it has no call for is asked
with its session, which is one of requests: HTTP_PROXY, HTTPS_PROXY and
REQUESTS_CA_BUNDLE.
"""

import hashlib
import sys

import tweepy

VERSIONS = {10: "HTTP/1.0", 11: "HTTP/1.1"}

client = tweepy.Client(bearer_token="dummy")
user = client.get_user(username="abide").data
tweet = client.create_tweet(text="hello", user_auth=False).data
api = tweepy.API(tweepy.OAuth2BearerHandler("dummy"))
status = api.get_status(20)
print("calls", user.id, user.username, tweet["id"], status.id, status.text)

for base in sys.argv[1:3]:

    def report(step, method, path, **options):
        # The path that every call of Tweepy takes, but for the status that is
        # looked at there.
        with client.session.request(method, base + path, **options) as response:
            response.raise_for_status()
            digest = hashlib.sha256(response.content).hexdigest()
            version = VERSIONS[response.raw.version]
            print(base.split(":")[0], step, response.status_code, digest, version)

    report("get", "GET", "/get?q=a%20b&n=1")
    report("post", "POST", "/post", data="name=J%C3%BCrgen&x=1")
    report("big", "GET", "/big")
    report("gzip", "GET", "/gzip")
    report("redirect", "GET", "/redirect")
    report("again", "GET", "/get?q=again")
