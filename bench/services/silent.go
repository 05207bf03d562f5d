package main

import (
	"net/http"
	"strings"
	"time"
)

// silentServices announce nothing before they refuse, and some nothing then.
var silentServices = []*service{
	{
		name: "SEC EDGAR", source: "https://www.sec.gov/about/webmaster-faqs#developers", host: "filings.test", kind: silent, requests: 300,
		paths: []string{"/Archives/edgar/data/320193/%d.txt", "/submissions/%d.json"},
		shared: func() []rule {
			return []rule{&penalty{rule: &rolling{amount: 10, length: time.Second}, length: time.Minute, extends: true}}
		},
		refuse: refusing(403, "<!DOCTYPE html><html><head><title>SEC.gov | Request Rate Threshold Exceeded</title></head><body><h1>Request Rate Threshold Exceeded</h1></body></html>", "Content-Type", "text/html"),
		goal:   goal{ratio: 7, early: 5},
	},
	{
		name: "block page without a word", source: "https://techdocs.akamai.com/app-api-protector/docs/rate-policy-actions", host: "shop.test", kind: silent, requests: 300,
		shared: func() []rule {
			return []rule{&penalty{rule: &rolling{amount: 10, length: time.Second}, length: time.Minute, extends: true}}
		},
		refuse: refusing(403, "<HTML><HEAD><TITLE>Access Denied</TITLE></HEAD><BODY><H1>Access Denied</H1>You don't have permission to access this page.</BODY></HTML>", "Content-Type", "text/html"),
		goal:   goal{ratio: 7, early: 5},
	},
	{
		name: "one a second, for hours", source: "a bucket of ten", host: "hours.test", kind: silent, requests: 14400,
		shared: one(func() rule { return &bucket{size: 10, rate: 1} }), refuse: refusing(429, ""),
		goal: goal{early: 20},
	},
	{
		name: "nginx limit_req", source: "https://nginx.org/en/docs/http/ngx_http_limit_req_module.html", host: "nginx.test", kind: silent, requests: 300,
		shared: one(func() rule { return &bucket{size: 21, rate: 10} }),
		refuse: refusing(503, "<html><head><title>503 Service Temporarily Unavailable</title></head></html>", "Content-Type", "text/html"),
		goal:   goal{early: 10, often: 8},
	},
	{
		name: "arXiv", source: "https://info.arxiv.org/help/api/tou.html", host: "preprints.test", kind: silent, requests: 60, paths: []string{"/api/query"},
		shared: one(func() rule { return &bucket{size: 1, rate: 1. / 3} }), refuse: refusing(503, "Rate exceeded.", "Content-Type", "text/plain"),
		goal: goal{early: 8, often: 2},
	},
	{
		name: "MusicBrainz", source: "https://musicbrainz.org/doc/MusicBrainz_API/Rate_Limiting", host: "records.test", kind: silent, requests: 120,
		shared: one(func() rule { return &bucket{size: 1, rate: 1} }),
		refuse: refusing(503, `{"error":"Your requests are exceeding the allowable rate limit. Please see http://wiki.musicbrainz.org/XMLWebService for more information."}`),
		goal:   goal{ratio: 1.35, early: 9, often: 2},
	},
	{
		name: "Nominatim", source: "https://operations.osmfoundation.org/policies/nominatim/", host: "places.test", kind: silent, requests: 120, paths: []string{"/search"},
		shared: one(func() rule { return &bucket{size: 1, rate: 1} }), refuse: refusing(429, ""),
		goal: goal{ratio: 1.35, early: 9, often: 2},
	},
	{
		name: "Semantic Scholar", source: "https://www.semanticscholar.org/product/api", host: "papers.test", kind: silent, requests: 120,
		rules: own(func() rule { return &rolling{amount: 1, length: time.Second} }), refuse: refusing(429, `{"message":"Too Many Requests. Please wait and try again or apply for a key for higher rate limits.","code":"429"}`),
		goal: goal{ratio: 1.35, early: 9, often: 2},
	},
	{
		name: "Steam", source: "https://steamcommunity.com/dev/apiterms", host: "market.test", kind: silent, requests: 400,
		shared: one(func() rule { return &window{amount: 20, length: 5 * time.Minute} }), refuse: refusing(429, "null"),
		goal: goal{early: 10, slower: 1.1},
	},
	{
		name: "iTunes search", source: "https://developer.apple.com/library/archive/documentation/AudioVideo/Conceptual/iTuneSearchAPI/", host: "music.test", kind: silent, requests: 400, paths: []string{"/search"},
		shared: one(func() rule { return &window{amount: 20, length: time.Minute} }), refuse: refusing(429, ""),
		goal: goal{early: 8, slower: 1.1},
	},
	{
		name: "Wayback Machine", source: "https://archive.org/developers/", host: "archive.test", kind: silent, requests: 300,
		shared: one(func() rule { return &window{amount: 15, length: time.Minute, aligned: true} }), refuse: refusing(429, "<html>Too Many Requests</html>"),
		goal: goal{early: 9, slower: 1.15},
	},
	{
		name: "NCBI E-utilities", source: "https://www.ncbi.nlm.nih.gov/books/NBK25497/", host: "genes.test", kind: silent, requests: 120,
		shared: one(func() rule { return &window{amount: 3, length: time.Second, aligned: true} }), refuse: refusing(429, `{"error":"API rate limit exceeded","count":"4"}`), goal: goal{ratio: 1.4, early: 10, often: 4},
	},
	{
		name: "10 in 12 s", source: "a fixed window that begins with its first request", host: "ten.test", kind: silent, requests: 200,
		rules: own(func() rule { return &window{amount: 10, length: 12 * time.Second} }), refuse: refusing(429, ""),
		goal: goal{early: 9, slower: 1.1},
	},
	{
		name: "100 in 10 s", source: "a window of the clock", host: "hundred.test", kind: silent, requests: 2000,
		rules: own(func() rule { return &window{amount: 100, length: 10 * time.Second, aligned: true} }), refuse: refusing(429, ""),
		goal: goal{early: 27, often: 5, slower: 1.25},
	},
	{
		name: "40 in any 10 s", source: "a rolling window", host: "forty.test", kind: silent, requests: 800,
		rules: own(func() rule { return &rolling{amount: 40, length: 10 * time.Second} }), refuse: refusing(429, ""),
		goal: goal{early: 8, slower: 1.25},
	},
	{
		name: "50 at once, 5 a second", source: "a token bucket", host: "bucket.test", kind: silent, requests: 1000,
		rules: own(func() rule { return &bucket{size: 50, rate: 5} }), refuse: refusing(429, ""),
		goal: goal{early: 14, often: 3},
	},
	{
		name: "8 in flight", source: "https://docs.stripe.com/rate-limits", host: "payments.test", kind: silent, requests: 4000, atOnce: 8,
		busy: func(h http.Header) (int, string) {
			h.Set("Stripe-Rate-Limited-Reason", "global-concurrency")
			return 429, `{"error":{"message":"Request rate limit exceeded."}}`
		},
		goal: goal{early: 8},
	},
	{
		name: "5 in flight, without a word", source: "https://www.crossref.org/documentation/retrieve-metadata/rest-api/", host: "works.test", kind: silent, requests: 4000, atOnce: 5,
		busy: func(http.Header) (int, string) { return 429, "Too many requests" },
		goal: goal{early: 40, often: 8, slower: 1.15},
	},
	{
		name: "MediaWiki maxlag", source: "https://www.mediawiki.org/wiki/Manual:Maxlag_parameter", host: "en.wikipedia.org", kind: silent, requests: 4000, paths: []string{"/w/api.php"}, polite: 1,
		overload: between(3*time.Second, 20*time.Second), overdone: func(h http.Header) (int, string) {
			h.Set("Retry-After", "5")
			h.Set("Content-Type", "application/json")
			return 200, `{"error":{"code":"maxlag","info":"Waiting for 10.64.16.7: 6.3 seconds lagged","lag":6.3}}`
		},
		goal: goal{early: 5},
	},
	{
		name: "S3 SlowDown", source: "https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html", host: "objects.s3.amazonaws.com", kind: silent, requests: 20000,
		overload: between(3*time.Second, 12*time.Second), overdone: func(h http.Header) (int, string) {
			h.Set("Content-Type", "application/xml")
			return 503, `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`
		},
		goal: goal{early: 30, slower: 2.1},
	},
	{
		name: "overloaded, 529", source: "https://docs.anthropic.com/en/api/errors", host: "model.test", kind: silent, requests: 20000, paths: []string{"POST /items/%d"},
		overload: between(3*time.Second, 10*time.Second), overdone: func(h http.Header) (int, string) {
			h.Set("Content-Type", "application/json")
			return 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
		},
		goal: goal{early: 30, slower: 2.1},
	},
}

// refusing refuses with one answer. pairs are names and values of headers.
func refusing(status int, body string, pairs ...string) func(*said, http.Header) (int, string) {
	return func(_ *said, h http.Header) (int, string) {
		if strings.HasPrefix(body, "{") {
			h.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return status, body
	}
}

// one is a limit of all tokens together.
func one(make func() rule) func() []rule { return func() []rule { return []rule{make()} } }

// own is a limit of each token.
func own(make func() rule) func(string) []rule {
	return func(string) []rule { return []rule{make()} }
}

// between is an overload from one time of a run to another.
func between(from, to time.Duration) func(time.Duration) bool {
	return func(at time.Duration) bool { return at >= from && at < to }
}
