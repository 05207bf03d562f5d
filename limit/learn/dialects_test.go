package learn

import "testing"

const api = "GET api.example.com/v1/items "

func TestTheDraftsOfTheIETF(t *testing.T) {
	check(t, []short{
		{api + `200 | RateLimit: limit=100, remaining=50, reset=5 | RateLimit-Policy: 100;w=10`, "served token 50/100 reset 5 window 10"},
		{api + `200 | RateLimit-Limit: 10, 10;w=1;comment="a, b", 50;w=60 | RateLimit-Remaining: 9 | RateLimit-Reset: 1`, "served token 9/10 reset 1 window 1"},
		{api + `200 | RateLimit-Policy: 100;w=60, 5000;w=86400 | RateLimit-Limit: 5000 | RateLimit-Remaining: 7 | RateLimit-Reset: 50`, "served token 7/5000 reset 50 window 86400"},
		{api + `429 | Retry-After: 20 | RateLimit: "dynamic";r=15;t=40`, "refused route dynamic 15/? reset 40 retry 20"},
		{api + `200 | RateLimit: "default";r=1;t=4`, "served token 1/? reset 4"},
		{api + `200 | RateLimit: "a";r=5;t=4, "b";r=-2;t=9`, "served route a 5/? reset 4"},
		{api + `200 | RateLimit: "a";r=0;t=4, "b";r=0;t=9`, "served route b 0/? reset 9 retry 9"},
		{api + `200 | RateLimit-Policy: "req";q=10;w=60, "bytes";q=1000;qu="content-bytes";w=60 | RateLimit: "req";r=5;t=30, "bytes";r=2;t=3`, "served route req 5/10 reset 30 window 60"},
		{api + `200 | RateLimit-Policy: "c";q=2;qu="concurrent-requests" | RateLimit: "c";r=0`, "served route c"},
		{api + `200 | RateLimit: "a";r=x;t=4`, "served none"},
		{api + `200 | RateLimit: limit=100, remaining=-2, reset=5`, "served token 0/100 reset 5 retry 5"},
		{api + `200 | RateLimit: "perday";r=0 | RateLimit-Policy: "perday";q=1000;w=86400`, "served route perday 0/1000 window 86400"},
		{api + `200 | Age: 7 | RateLimit: "a";r=0;t=40`, "served none"},
		{api + `200 | Age: 7 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 60`, "served none"},
		{api + `200 | Age: 0 | RateLimit: "a";r=3;t=40`, "served route a 3/? reset 40"},
		{api + `429 | Age: 90 | Retry-After: 60`, "refused token retry 1"},
		{api + `403 || {"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}`, "refused token"},
		{api + `429 || {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"}`, "refused site"},
		{api + `429 | Beta-RateLimit: "burst";r=0;t=9 | Beta-RateLimit-Policy: "burst";q=10;w=60 | Beta-Retry-After: 9`, "refused route burst 0/10 reset 9 retry 9 window 60"},
	})
}

func TestCodeHostsAndSocial(t *testing.T) {
	check(t, []short{
		{`GET api.github.com/search/code 403 | X-RateLimit-Limit: 5000 | X-RateLimit-Remaining: 4 | X-RateLimit-Reset: 1700000500 | X-RateLimit-Resource: graphql || {"message":"API rate limit exceeded for user ID 1."}`, "refused route graphql 4/5000 reset 500 retry 500"},
		{`POST api.github.com/graphql 200 | X-RateLimit-Limit: 5000 | X-RateLimit-Remaining: 4 | X-RateLimit-Reset: 1700000500 | X-RateLimit-Resource: graphql || {"data":null,"errors":[{"type": "RATE_LIMIT"}]}`, "refused route graphql 4/5000 reset 500 retry 500"},
		{`POST api.github.com/graphql 200 || {"data":{"text":"\"errors\" \"type\":\"RATE_LIMITED\""}}`, "served none"},
		{`GET api.github.com/user 403 | X-RateLimit-Limit: 5000 | X-RateLimit-Remaining: 4987 | X-RateLimit-Reset: 1700000500 | X-RateLimit-Resource: core || {"message":"Resource not accessible by integration"}`, "served route core 4987/5000 reset 500"},
		{`GET git.corp/api/v3/user 429 | Retry-After:  || {"message":"You have exceeded a secondary rate limit."}`, "refused token retry 60"},
		{`GET gitlab.com/api/v4/projects 200 | RateLimit-Limit: 2000 | RateLimit-Name: throttle_authenticated_api | RateLimit-Observed: 6 | RateLimit-Remaining: 1994 | RateLimit-Reset: 1700000040`, "served route throttle_authenticated_api 1994/2000 reset 40"},
		{`GET api.x.com/2/tweets 200 | x-rate-limit-limit: 900 | x-rate-limit-remaining: 847 | x-rate-limit-reset: 1700000700`, "served token 847/900 reset 700"},
		{`GET api.x.com/2/tweets 200 | x-rate-limit-limit: 900 | x-rate-limit-remaining: 0 | x-rate-limit-reset: 1700000700 | x-user-limit-24hour-limit: 25 | x-user-limit-24hour-remaining: 0 | x-user-limit-24hour-reset: 1700040000`, "served token 0/25 reset 40000 retry 40000 window 86400"},
		{`GET discord.com/api/v10/x 429 | Retry-After: 65 | X-RateLimit-Global: true | X-RateLimit-Scope: global || {"retry_after":64.57,"global":true}`, "refused token retry 65"},
		{`GET discord.com/api/v10/x 429 || {"message":"…","retry_after": 64.57, "global": true}`, "refused token retry 64.57"},
		{`GET discord.com/api/v10/x 429 | Retry-After: 2 | X-RateLimit-Limit: 5 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset-After: 1.2 | X-RateLimit-Bucket: b | X-RateLimit-Scope: user || {"retry_after":1.2}`, "refused route b 0/5 reset 1.2 retry 2"},
		{`GET mastodon.social/api/v1/x 200 | X-RateLimit-Limit: 300 | X-RateLimit-Remaining: 298 | X-RateLimit-Reset: 2023-11-14T22:15:00.123456Z`, "served token 298/300 reset 100.123456"},
		{`GET graph.facebook.com/me 200 | X-App-Usage: {"call_count":28,"total_time":25,"total_cputime":25}`, "served token"},
		{`GET graph.facebook.com/me 400 || {"error":{"code":613,"message":"Calls to this api have exceeded the rate limit."}}`, "refused token"},
		{`GET graph.facebook.com/me 400 || {"error":{"code":190,"message":"Invalid token"}}`, "served none"},
		{`GET graph.facebook.com/me 400 || {"error":{"code":80014}}`, "refused token"},
		{`GET graph.facebook.com/me 200 | X-Business-Use-Case-Usage: {"1":[{"call_count":100,"estimated_time_to_regain_access":2}]}`, "served token retry 120"},
		{`GET api.pinterest.com/v5/pins 429 | x-ratelimit-limit: 100, 100;w=1, 1000;w=60 | x-ratelimit-remaining: 0 | x-ratelimit-reset: 1`, "refused token 0/100 reset 1 retry 1 window 1"},
		{`GET api.spotify.com/v1/search 429 | Retry-After: 79200`, "refused token retry 79200"},
		{`GET api.twitch.tv/helix/streams 429 | Ratelimit-Limit: 800 | Ratelimit-Remaining: 0 | Ratelimit-Reset: 1700000003`, "refused token 0/800 reset 3 retry 3"},
		{`GET api.imgur.com/3/x 429 | X-RateLimit-UserLimit: 500 | X-RateLimit-UserRemaining: 0 | X-RateLimit-UserReset: 1700001200 | X-RateLimit-ClientLimit: 12500 | X-RateLimit-ClientRemaining: 9`, "refused token 0/500 reset 1200 retry 1200"},
		{`GET api.imgur.com/3/x 200 | X-RateLimit-UserLimit: 500 | X-RateLimit-UserRemaining: 400 | X-RateLimit-UserReset: 1700001200 | X-Post-Rate-Limit-Limit: 1250 | X-Post-Rate-Limit-Remaining: 0 | X-Post-Rate-Limit-Reset: 3600`, "served token 400/500 reset 1200"},
		{`POST api.imgur.com/3/x 200 | X-RateLimit-UserLimit: 500 | X-RateLimit-UserRemaining: 400 | X-RateLimit-UserReset: 1700001200 | X-Post-Rate-Limit-Limit: 1250 | X-Post-Rate-Limit-Remaining: 0 | X-Post-Rate-Limit-Reset: 3600`, "served token 0/1250 reset 3600 retry 3600"},
	})
}

func TestCommerceAndServices(t *testing.T) {
	check(t, []short{
		{`GET s.myshopify.com/admin/api/x.json 429 | X-Shopify-Shop-Api-Call-Limit: 40/40 | Retry-After: 2.0`, "refused token 0/40 retry 2"},
		{`GET s.myshopify.com/admin/api/x.json 200 | HTTP_X_SHOPIFY_SHOP_API_CALL_LIMIT: 39/40`, "served token 1/40"},
		{`POST s.myshopify.com/admin/api/graphql.json 200 || {"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":502,"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":402,"restoreRate":50.0}}}}`, "refused token retry 2"},
		{`POST api.stripe.com/v1/x 429 || {"error":{"code":"lock_timeout"}}`, "locked route"},
		{`POST api.stripe.com/v1/x 429 | Stripe-Rate-Limited-Reason: endpoint-rate`, "refused route"},
		{`POST api.stripe.com/v1/x 429 | Stripe-Rate-Limited-Reason: global-concurrency`, "refused in flight token"},
		{`POST api.stripe.com/v1/x 429 | Stripe-Rate-Limited-Reason: resource-specific`, "refused route"},
		{`GET api.hubapi.com/x 429 | X-HubSpot-RateLimit-Max: 100 | X-HubSpot-RateLimit-Remaining: 0 | X-HubSpot-RateLimit-Interval-Milliseconds: 10000 || {"policyName":"TEN_SECONDLY_ROLLING"}`, "refused token 0/100 retry 10 window 10"},
		{`GET api.hubapi.com/x 200 | X-HubSpot-RateLimit-Secondly: 19 | X-HubSpot-RateLimit-Secondly-Remaining: 18`, "served token 18/19 window 1"},
		{`GET a.zendesk.com/x 429 | Retry-After: 87 | x-rate-limit: 700 | x-rate-limit-remaining: 0`, "refused token 0/700 retry 87"},
		{`GET a.atlassian.net/x 429 | RateLimit-Reason: jira-per-issue-on-write | Retry-After: 3`, "refused route retry 3"},
		{`GET a.atlassian.net/x 429 | RateLimit-Reason: jira-quota-global-based | Retry-After: 1847 | X-RateLimit-Reset: 2023-11-14T23:00Z`, "refused token reset 2800 retry 1847"},
		{`GET wiki.corp/x 200 | X-RateLimit-Limit: 50 | X-RateLimit-Remaining: 49 | X-RateLimit-Interval-Seconds: 60 | X-RateLimit-FillRate: 10 | retry-after: 0`, "served token 49/50 window 60"},
		{`GET api.trello.com/1/x 429 || {"error":"API_TOKEN_LIMIT_EXCEEDED"}`, "refused token retry 10"},
		{`POST api.linear.app/graphql 200 | X-RateLimit-Requests-Limit: 5000 | X-RateLimit-Requests-Remaining: 4999 | X-RateLimit-Requests-Reset: 1700003600000 | X-RateLimit-Complexity-Limit: 250000 | X-RateLimit-Complexity-Remaining: 10 | X-RateLimit-Complexity-Reset: 1700003600000 | X-Complexity: 7`, "served token 4999/5000 reset 3600"},
		{`POST api.linear.app/graphql 400 | X-RateLimit-Requests-Limit: 5000 | X-RateLimit-Requests-Remaining: 4999 | X-RateLimit-Requests-Reset: 1700003600000 | X-RateLimit-Complexity-Limit: 250000 | X-RateLimit-Complexity-Remaining: 0 | X-RateLimit-Complexity-Reset: 1700000100000 || {"errors":[{"extensions":{"code":"RATELIMITED"}}]}`, "refused token 4999/5000 reset 3600 retry 100"},
		{`GET api.notion.com/v1/x 529`, "refused site"},
		{`GET a.my.salesforce.com/x 200 | Sforce-Limit-Info: api-usage=4999/5000; per-app-api-usage=17/250(appName=x)`, "served token 1/5000"},
		{`POST api.dropboxapi.com/2/x 429 | Retry-After: 15 || {"error":{"reason":{".tag":"too_many_requests"},"retry_after":15}}`, "refused token retry 15"},
		{`POST api.dropboxapi.com/2/x 429 || {"error":{"reason":{".tag":"too_many_write_operations"},"retry_after":1}}`, "locked route retry 1"},
		{`GET api.box.com/2.0/x 429 | retry-after: 12 || {"code":"rate_limit_exceeded"}`, "refused token retry 12"},
		{`GET openapi.etsy.com/x 429 | x-limit-per-second: 150 | x-remaining-this-second: 0 | x-limit-per-day: 100000 | x-remaining-today: 99999 | retry-after: 1`, "refused token 0/150 retry 1 window 1"},
		{`GET api.yelp.com/v3/x 429 | RateLimit-DailyLimit: 500 | RateLimit-Remaining: 0 | RateLimit-ResetTime: 2023-11-15T00:00:00+00:00 || {"error":{"code":"ACCESS_LIMIT_REACHED"}}`, "refused token 0/500 reset 6400 retry 6400 window 86400"},
		{`GET api.yelp.com/v3/x 429 || {"error":{"code":"ACCESS_LIMIT_REACHED"}}`, "refused token retry 6400"},
		{`GET sellingpartnerapi-eu.amazon.com/x 200 | x-amzn-RateLimit-Limit: 0.5`, "served route ?/0.5 window 1"},
		{`GET 3.basecampapi.com/x 429 | X-RateLimit: {"name":"API","period":10,"limit":50,"remaining":0,"until":"2023-11-14T22:13:27Z"} | Retry-After: 7`, "refused route API 0/50 reset 7 retry 7 window 10"},
		{`GET api.appstoreconnect.apple.com/v1/x 429 | X-Rate-Limit: user-hour-lim:3600;user-hour-rem:12;,user-minute-lim:150;user-minute-rem:0;`, "refused token 0/150 retry 60 window 60"},
		{`GET urlscan.io/api/v1/search 429 | X-Rate-Limit-Scope: user | X-Rate-Limit-Action: search | X-Rate-Limit-Window: minute | X-Rate-Limit-Limit: 120 | X-Rate-Limit-Remaining: 0 | X-Rate-Limit-Reset: 2023-11-14T22:14:00.000Z | X-Rate-Limit-Reset-After: 40`, "refused route search 0/120 reset 40 retry 40 window 60"},
		{`GET urlscan.io/api/v1/search 429 | X-Rate-Limit-Scope: ip-address | X-Rate-Limit-Action: search | X-Rate-Limit-Window: minute | X-Rate-Limit-Limit: 120 | X-Rate-Limit-Remaining: 0 | X-Rate-Limit-Reset-After: 40`, "refused route search 0/120 reset 40 retry 40 window 60"},
		{`POST api.openai.azure.test/v1/responses 200 | X-RateLimit-Limit-Tokens: -1 | X-RateLimit-Remaining-Tokens: -1 | X-RateLimit-Reset-Tokens: 55`, "served none"},
		{`GET api.test/a 200 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 12 | X-RateLimit-Reset: 30`, "served token 10/10 reset 30"},
		{`GET urlscan.io/api/v1/search 429 | X-Rate-Limit-Scope: ip-address | X-Rate-Limit-Window: minute | X-Rate-Limit-Limit: 120 | X-Rate-Limit-Remaining: 0 | X-Rate-Limit-Reset-After: 40`, "refused site 0/120 reset 40 retry 40 window 60"},
		{`GET api.prod.whoop.com/x 200 | X-RateLimit-Limit: 100, 100;window=60, 10000;window=86400 | X-RateLimit-Remaining: 98 | X-RateLimit-Reset: 3`, "served token 98/100 reset 3 window 60"},
		{`GET api.attio.com/x 429 | Retry-After: Tue, 14 Nov 2023 22:13:21 GMT`, "refused token retry 1"},
		{`GET connect.mailerlite.com/x 429 | X-RateLimit-Limit: 120 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 2023-11-14 22:14:20 | X-RateLimit-Retry-After: 60`, "refused token 0/120 reset 60 retry 60"},
		{`GET thirdparty.qonto.com/v2/x 401 | Retry-After: 9`, "refused token retry 9"},
		{`GET api.other.com/v2/x 401 | X-RateLimit-Limit: 60 | X-RateLimit-Remaining: 59`, "served token 59/60"},
		{`GET chat.corp/api 200 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 9 | X-RateLimit-Reset: 1700000060000`, "served token 9/10 reset 60"},
		{`GET ip-api.com/json 200 | X-Rl: 0 | X-Ttl: 37`, "served site 0/? reset 37 retry 37"},
		{`GET ip-api.com/json 429 | X-Rl: 0 | X-Ttl: 37`, "refused site 0/? reset 37 retry 37"},
		{`GET other.example/json 200 | X-Rl: 0 | X-Ttl: 37`, "served none"},
		{`GET ag.oraclecloud.com/x 200 | RequestLimit-Default-Remaining: 7`, "served token 7/?"},
		{`GET api.stackoverflowteams.com/x 429 | x-burst-throttle-calls-left: 49 | x-burst-throttle-seconds-until-full: 2 | x-token-bucket-calls-left: 0 | x-token-bucket-seconds-until-full: 60 | x-token-bucket-seconds-until-next-refill: 12`, "refused token 0/? reset 60 retry 12"},
	})
}

func TestLanguageModels(t *testing.T) {
	check(t, []short{
		{`POST api.openai.com/v1/x 429 | x-ratelimit-limit-requests: 5000 | x-ratelimit-remaining-requests: 4999 | x-ratelimit-reset-requests: 12ms | x-ratelimit-limit-tokens: 160000 | x-ratelimit-remaining-tokens: 0 | x-ratelimit-reset-tokens: 6m0s`, "refused token 4999/5000 reset 0.012 retry 360"},
		{`POST api.openai.com/v1/x 200 | x-ratelimit-limit-requests: 5000 | x-ratelimit-remaining-requests: 1 | x-ratelimit-reset-requests: 1h30m12.5s`, "served token 1/5000 reset 5412.5"},
		{`POST r.openai.azure.com/x 200 | x-ratelimit-remaining-requests: 9 | x-ratelimit-remaining-tokens: -1`, "served token 9/?"},
		{`POST api.anthropic.com/v1/x 200 | anthropic-ratelimit-unified-status: allowed | anthropic-ratelimit-unified-reset: 1700003600`, "served token reset 3600"},
		{`POST api.anthropic.com/v1/x 429 | anthropic-ratelimit-requests-limit: 50 | anthropic-ratelimit-requests-remaining: 0 | anthropic-ratelimit-requests-reset: 2023-11-14T22:13:50Z`, "refused token 0/50 reset 30 retry 30"},
		{`POST generativelanguage.googleapis.com/x 429 || {"error":{"status":"RESOURCE_EXHAUSTED"}}`, "refused token"},
	})
}

func TestScholarlyAndWikis(t *testing.T) {
	check(t, []short{
		{`GET en.wikipedia.org/w/api.php 200 || {"error":{"code":"ratelimited","info":"…"}}`, "refused token"},
		{`GET en.wikipedia.org/w/api.php 200 | Mediawiki-Api-Error: ratelimited`, "refused token"},
		{`GET wiki.corp/api.php 200 | Retry-After: 5 | MediaWiki-API-Error: maxlag`, "refused site retry 5"},
		{`GET export.arxiv.org/oai2 503 | Retry-After: 10`, "refused site retry 10"},
		{`GET api.crossref.org/works 429 | X-Rate-Limit-Limit: 50 | X-Rate-Limit-Interval: 1s`, "refused token ?/50 retry 1 window 1"},
		{`GET api.crossref.org/works 200 | X-Rate-Limit-Limit: 50 | X-Rate-Limit-Interval: 1s | x-concurrency-limit: 3`, "served token ?/50 window 1"},
		{`GET api.elsevier.com/x 429 | X-RateLimit-Limit: 20000 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1700500000 | X-ELS-Status: QUOTA_EXCEEDED - Quota Exceeded`, "refused token 0/20000 reset 500000 retry 500000"},
		{`GET api.stackexchange.com/2.3/x 200 || {"items":[],"backoff":10,"quota_max":300,"quota_remaining":297}`, "served route 297/300 retry 10"},
		{`GET api.stackexchange.com/2.3/x 200 || {"items":[],"quota_max":300,"quota_remaining":297}`, "served token 297/300"},
		{`GET api.stackexchange.com/2.3/x 502 || {"error_id":502,"error_name":"throttle_violation","error_message":"too many requests from this IP, more requests available in 4201 seconds"}`, "refused site retry 4201"},
		{`GET api.semanticscholar.org/x 429 || {"code":"429"}`, "refused token"},
	})
}

func TestFitnessExchangesAndGames(t *testing.T) {
	check(t, []short{
		{`GET www.strava.com/api/v3/x 429 | X-RateLimit-Limit: 200,2000 | X-RateLimit-Usage: 201,512`, "refused token 0/200 reset 100 retry 100 window 900"},
		{`GET www.strava.com/api/v3/x 200 | X-RateLimit-Limit: 200,2000 | X-RateLimit-Usage: 199,512`, "served token 1/200 reset 100 window 900"},
		{`POST www.strava.com/api/v3/x 200 | X-RateLimit-Limit: 200,2000 | X-RateLimit-Usage: 20,500 | X-ReadRateLimit-Limit: 100,1000 | X-ReadRateLimit-Usage: 100,400`, "served token 180/200 reset 100 window 900"},
		{`GET api.fitbit.com/x 429 | Fitbit-Rate-Limit-Limit: 150 | Fitbit-Rate-Limit-Remaining: 0 | Fitbit-Rate-Limit-Reset: 1478 | Retry-After: 1479`, "refused token 0/150 reset 1478 retry 1479"},
		{`GET www.googleapis.com/x 403 || {"error":{"errors":[{"reason":"userRateLimitExceeded"}]}}`, "refused token"},
		{`GET www.googleapis.com/x 429 || {"error":{"errors":[{"reason": "dailyLimitExceeded"}]}}`, "refused token retry 35200"},
		{`GET huggingface.co/api/x 429 | ratelimit: "api";r=0;t=55 | ratelimit-policy: "fixed window";"api";q=500;w=300`, "refused route api 0/500 reset 55 retry 55 window 300"},
		{`GET api.binance.com/x 200 | X-MBX-USED-WEIGHT: 120 | X-MBX-USED-WEIGHT-1M: 120`, "served site window 60"},
		{`GET api.binance.com/x 403 || <html>WAF</html>`, "served none"},
		{`POST api.kraken.com/0/x 200 || {"error":["EAPI:Rate limit exceeded"]}`, "refused token"},
		{`POST api.kraken.com/0/x 200 || {"error":[],"result":{}}`, "served none"},
		{`GET euw1.api.riotgames.com/x 429 | Retry-After: 3 | X-Rate-Limit-Type: method | X-Method-Rate-Limit: 2000:10 | X-Method-Rate-Limit-Count: 2001:10`, "refused route 0/2000 retry 3 window 10"},
		{`GET euw1.api.riotgames.com/x 200 | X-App-Rate-Limit: 100:120,20:1 | X-App-Rate-Limit-Count: 1:1,99:120`, "served token 1/100 window 120"},
		{`GET euw1.api.riotgames.com/x 429 | X-App-Rate-Limit: 20:1 | X-App-Rate-Limit-Count: 1:1`, "refused token 19/20 window 1"},
	})
}

func TestCloudsAndEdges(t *testing.T) {
	check(t, []short{
		{`GET management.azure.com/x 429 | Retry-After: 17 | x-ms-ratelimit-remaining-resource: Microsoft.Compute/HighCostGet3Min;0,Microsoft.Compute/HighCostGet30Min;7`, "refused route Microsoft.Compute/HighCostGet3Min 0/? retry 17"},
		{`POST dynamodb.us-east-1.amazonaws.com/ 400 || {"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`, "refused token"},
		{`POST dynamodb.us-east-1.amazonaws.com/ 400 || {"__type":"com.amazonaws.dynamodb.v20120810#ValidationException"}`, "served none"},
		{`GET bucket.s3.amazonaws.com/k 503 || <Error><Code>ServiceUnavailable</Code></Error>`, "served none"},
		{`GET x.execute-api.us-east-1.amazonaws.com/dev 429 | x-amzn-ErrorType: LimitExceededException || {"message":"Limit Exceeded"}`, "refused token"},
		{`GET api.cloudflare.com/client/v4 200 | Ratelimit: "default";r=50;t=30 | Ratelimit-Policy: "default";q=1200;w=300`, "served token 50/1200 reset 30 window 300"},
		{`GET shop.example/ 403 | cf-mitigated: challenge | Server: cloudflare || Just a moment`, "served none"},
		{`GET shop.example/ 403 | Server: cloudflare || error code: 1015`, "refused site"},
		{`GET registry-1.docker.io/v2/x 200 | ratelimit-limit: 100;w=21600 | ratelimit-remaining: 20;w=21600 | docker-ratelimit-source: 17a0d3b2-77c6`, "served token 20/100 window 21600"},
		{`GET registry.npmjs.org/x 429 || {"error":"rate limited"}`, "refused token"},
	})
}

func TestFrameworksAndGateways(t *testing.T) {
	check(t, []short{
		{api + `429 | X-RateLimit-Limit: 60 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1700000042 | Retry-After: 42`, "refused token 0/60 reset 42 retry 42"},
		{api + `429 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 60 | Retry-After: 0`, "refused token 0/10 reset 60 retry 60"},
		{api + `429 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1700000000 | Retry-After: 0`, "refused token 0/10 reset 0 retry 1"},
		{api + `429 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: Tue, 14 Nov 2023 22:14:20 UTC | Retry-After: Tue, 14 Nov 2023 22:14:20 UTC`, "refused token 0/10 reset 60 retry 60"},
		{api + `200 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1700000041 | Retry-After: 41`, "served token 0/10 reset 41 retry 41"},
		{api + `429 | Retry-After-short: 44`, "refused token retry 44"},
		{api + `200 | X-RateLimit-Limit-Minute: 5 | X-RateLimit-Remaining-Minute: 4 | X-RateLimit-Limit-Hour: 100 | X-RateLimit-Remaining-Hour: 99 | RateLimit-Limit: 5 | RateLimit-Remaining: 4 | RateLimit-Reset: 12`, "served token 4/5 reset 12 window 60"},
		{api + `200 | x-ratelimit-limit: 10, 10;w=1;name="a,b" | x-ratelimit-remaining: 9 | x-ratelimit-reset: 1`, "served token 9/10 reset 1 window 1"},
		{api + `429 | X-Rate-Limit-Retry-After-Seconds: 0`, "refused token retry 1"},
		{api + `429 | X-RateLimit-Remaining: 0 | X-RateLimit-Replenish-Rate: 10 | X-RateLimit-Burst-Capacity: 20 | X-RateLimit-Requested-Tokens: 1`, "refused token 0/20 retry 0.1"},
		{api + `200 | X-RateLimit-Limit: 10 | X-RateLimit-Limit: 100 | X-RateLimit-Remaining: 9 | X-RateLimit-Remaining: 5 | X-RateLimit-Reset: 1 | X-RateLimit-Reset: 60`, "served token 5/100 reset 60"},
		{api + `200 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 9 | X-RateLimit-Reset: PT1M30S`, "served token 9/10 reset 90"},
		{api + `200 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 9 | X-RateLimit-Reset: 3000000`, "served token 9/10 reset 3000"},
		{api + `200 | X-RateLimit-Limit: 100 | X-RateLimit-Remaining: 50 | RateLimit-Reset: 30`, "served token 50/100 reset 30"},
		{api + `200 | X-RateLimit-Limit: 100 | X-RateLimit-Remaining: 0.5 | X-RateLimit-Reset: 30`, "served token 0.5/100 reset 30 retry 30"},
		{api + `200 | X-RateLimit-Limit: 9 | X-RateLimit-Remaining: 5 | X-RateLimit-Reset: Tue Nov 14 22:14:20 UTC 2023`, "served token 5/9 reset 60"},
		{api + `200 | X-RateLimit-Limit: 9 | X-RateLimit-Remaining: 5 | X-RateLimit-Reset: tue, 14 nov 2023 22:14:20 gmt`, "served token 5/9 reset 60"},
		{api + `429 | Retry-After: Tuesday, 14-Nov-23 22:15:20 GMT`, "refused token retry 120"},
		{api + `429 | Retry-After: "30"`, "refused token retry 30"},
		{api + `429 | RateLimit-Policy: "burst";q=100;w=60`, "refused route burst ?/100 retry 60 window 60"},
		{api + `429 | RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400`, "refused route burst ?/100 window 60"},
		{api + `503 | Retry-After: 0`, "refused site retry 1"},
		{api + `503 | Retry-After: soon`, "served none"},
		{api + `403 | Retry-After: 0`, "served none"},
		{api + `403 | Retry-After: 30`, "refused token retry 30"},
		{api + `403 | X-RateLimit-Limit: 0 | X-RateLimit-Remaining: 0`, "served none"},
		{api + `429 | Date: Tue, 14 Nov 2023 22:13:50 GMT | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1700000090`, "refused token 0/10 reset 60 retry 60"},
		{api + `429 | Date: Tue, 14 Nov 2023 22:13:19 GMT | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1700000060`, "refused token 0/10 reset 60 retry 60"},
		{api + `429 | X-RateLimit-Reset: -1 | X-RateLimit-Remaining: 0 | X-RateLimit-Limit: 10`, "refused token 0/10"},
		{api + `429 | Retry-After: Tue, 14 Nov 2090 22:14:20 GMT`, "refused token retry 86400"},
		{api + `429 | Retry-After: Tue, 14 Nov 2000 22:14:20 GMT`, "refused token retry 1"},
		{api + `429 | Retry-After: 10, 60`, "refused token retry 60"},
		{api + `429 | Retry-After: 5,000`, "refused token"},
		{api + `429 | X-RateLimit-Limit: unlimited`, "refused token"},
	})
}
