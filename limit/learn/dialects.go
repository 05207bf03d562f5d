package learn

import "time"

// builtin is the index of the built-in dialects.
var builtin = newBook(dialects)

const (
	minute = time.Minute
	day    = 24 * time.Hour

	pacific = "America/Los_Angeles"
)

// served are success statuses that some services use for refusals.
var served = []int{200, 400, 403, 429}

// dialects are the built-in dialects: one entry for each service that the general rules
// cannot read.
var dialects = []Dialect{
	// Code hosts and social
	{
		Name: "github", Hosts: []string{"github.com", "*.github.com", "*.githubusercontent.com", "*.ghe.com"},
		Refusals: []Refusal{
			{Status: served, And: `"errors"`, Says: []string{"type=RATE_LIMITED", "type=RATE_LIMIT"}, Spent: true},
		},
	},
	{
		Name: "x", Hosts: []string{"api.x.com", "api.twitter.com"}, Scope: Route,
	},
	{
		Name: "discord", Hosts: []string{"discord.com", "*.discord.com", "discordapp.com", "*.discordapp.com"},
		Apart: []string{
			"/api/*/channels/*", "/api/*/guilds/*", "/api/*/webhooks/*",
			"/api/channels/*", "/api/guilds/*", "/api/webhooks/*",
		},
		// https://discord.com/developers/docs/topics/rate-limits#global-rate-limit
		Limits: []KnownLimit{{Requests: 50, Per: time.Second, Scope: Token}},
		Refusals: []Refusal{
			{Status: []int{429}, Says: []string{"error code: 1015", "Error 1015", "rror 1015"}, Scope: Site},
			{Status: []int{429}, Says: []string{"global=true"}, Key: "retry_after", Scope: Token},
			{Status: []int{429}, Says: []string{"retry_after=*"}, Key: "retry_after"},
		},
	},
	{
		Name: "facebook", Hosts: []string{"facebook.com", "*.facebook.com", "graph.instagram.com", "graph.threads.net", "graph.whatsapp.com"},
		Refusals: []Refusal{
			{Says: []string{"code=4", "code=17", "code=32", "code=613", "code=80000-80014"}, And: `"error"`, Scope: Token},
		},
	},
	{
		Name: "facebook usage",
		Headers: []Header{
			{Name: "x-app-usage", Is: IsUsed, Form: Usage, Of: "app"},
			{Name: "x-page-usage", Is: IsUsed, Form: Usage, Of: "page"},
			{Name: "x-business-use-case-usage", Is: IsUsed, Form: Usage, Of: "business use case"},
			{Name: "x-ad-account-usage", Is: IsUsed, Form: Usage, Of: "ad account"},
		},
	},
	{
		Name: "linkedin", Hosts: []string{"api.linkedin.com"},
		Refusals: []Refusal{{Status: []int{429}, Says: []string{""}, Until: "UTC", Scope: Route}},
	},
	{
		Name: "slack", Hosts: []string{"slack.com", "*.slack.com"}, Scope: Route,
	},

	// Commerce and services
	{
		Name: "shopify", Hosts: []string{"*.myshopify.com"}, Statuses: []int{422},
		Body: []Header{
			{Name: "maximumAvailable", Is: IsLimit, Of: "cost", Unit: Points},
			{Name: "currentlyAvailable", Is: IsRemaining, Of: "cost", Unit: Points},
			{Name: "restoreRate", Is: IsRate, Of: "cost", Unit: Points},
			{Name: "requestedQueryCost", Is: IsCost, Of: "cost", Unit: Points},
		},
		Refusals: []Refusal{{Status: served, Says: []string{"code=THROTTLED"}}},
	},
	{
		Name: "okta", Hosts: []string{"*.okta.com", "*.oktapreview.com", "*.okta-emea.com"}, Scope: Route,
	},
	{
		Name:     "stripe",
		Refusals: []Refusal{{Status: []int{429}, Says: []string{"code=lock_timeout"}, Lock: true, Scope: Route}},
	},
	{
		Name: "trello", Hosts: []string{"api.trello.com", "trello.com"},
		Refusals: []Refusal{
			{Says: []string{"API_KEY_LIMIT_EXCEEDED", "API_KEY_DB_LIMIT_EXCEEDED"}, Wait: 10 * time.Second, Scope: Site},
			{Says: []string{"API_TOKEN_LIMIT_EXCEEDED", "API_TOKEN_DB_LIMIT_EXCEEDED"}, Wait: 10 * time.Second, Scope: Token},
		},
	},
	{
		Name: "linear", Hosts: []string{"api.linear.app"},
		Refusals: []Refusal{{Status: served, Says: []string{"code=RATELIMITED"}, Scope: Token}},
	},
	{
		Name:    "salesforce",
		Headers: []Header{{Name: "sforce-limit-info", Is: IsUsed, Form: Ratio}},
		Refusals: []Refusal{
			{Status: []int{400, 403, 503}, Says: []string{"errorCode=REQUEST_LIMIT_EXCEEDED", "<errorCode>REQUEST_LIMIT_EXCEEDED"}, Scope: Token},
		},
	},
	{
		Name: "airtable", Hosts: []string{"api.airtable.com"},
		Refusals: []Refusal{{Status: []int{429}, Says: []string{""}, Wait: 30 * time.Second, Scope: Route}},
	},
	{
		Name: "dropbox", Hosts: []string{"*.dropboxapi.com", "api.dropbox.com"},
		Refusals: []Refusal{
			{Status: []int{429}, Says: []string{"too_many_write_operations"}, Key: "retry_after", Lock: true, Scope: Route},
		},
	},
	{
		Name: "etsy",
		Headers: []Header{
			{Name: "x-limit-per-second", Is: IsLimit, Of: "second", Window: time.Second},
			{Name: "x-remaining-this-second", Is: IsRemaining, Of: "second", Window: time.Second},
			{Name: "x-limit-per-day", Is: IsLimit, Of: "day", Window: day},
			{Name: "x-remaining-today", Is: IsRemaining, Of: "day", Window: day},
		},
	},
	{
		Name: "yelp", Hosts: []string{"api.yelp.com"},
		Headers: []Header{
			{Name: "ratelimit-dailylimit", Is: IsLimit, Of: "daily", Window: day},
			{Name: "ratelimit-remaining", Is: IsRemaining, Of: "daily", Window: day},
			{Name: "ratelimit-resourcedailylimit", Is: IsLimit, Of: "resource", Window: day},
			{Name: "ratelimit-resourceremaining", Is: IsRemaining, Of: "resource", Window: day},
			{Name: "ratelimit-resettime", Is: IsReset, Of: "daily resource", Window: day},
		},
		Refusals: []Refusal{
			{Says: []string{"TOO_MANY_REQUESTS_PER_SECOND"}, Wait: time.Second, Scope: Token},
			{Says: []string{"ACCESS_LIMIT_REACHED"}, Until: "UTC", Spent: true, Scope: Token},
		},
	},
	{
		Name:    "amazon selling partners",
		Headers: []Header{{Name: "x-amzn-ratelimit-limit", Is: IsLimit, Form: Hertz, Scope: Route}},
	},
	{
		Name: "stack overflow teams",
		Headers: []Header{
			{Name: "x-burst-throttle-calls-left", Is: IsRemaining, Of: "burst"},
			{Name: "x-burst-throttle-seconds-until-full", Is: IsReset, Of: "burst", In: time.Second},
			{Name: "x-burst-throttle-seconds-until-next-refill", Is: IsNext, Of: "burst", In: time.Second},
			{Name: "x-token-bucket-calls-left", Is: IsRemaining, Of: "bucket"},
			{Name: "x-token-bucket-seconds-until-full", Is: IsReset, Of: "bucket", In: time.Second},
			{Name: "x-token-bucket-seconds-until-next-refill", Is: IsNext, Of: "bucket", In: time.Second},
		},
	},
	{
		Name: "prisjakt", Hosts: []string{"*.prisjakt.nu", "*.pricespy.com", "*.pricespy.co.uk"}, ResetUnit: time.Millisecond,
	},
	{
		Name: "oracle access governance",
		Headers: []Header{
			{Name: "requestlimit-default-limit", Is: IsLimit},
			{Name: "requestlimit-default-remaining", Is: IsRemaining},
			{Name: "requestlimit-default-retryafter", Is: IsRetry, In: time.Millisecond},
		},
	},
	{
		Name: "qonto", Hosts: []string{"*.qonto.com", "*.qonto.eu"}, Statuses: []int{401},
	},

	// Language models
	{
		Name: "google", Hosts: []string{"*.googleapis.com"},
		Refusals: []Refusal{
			{Status: []int{403, 429, 503}, Says: []string{"retryDelay=*"}, Key: "retryDelay", Scope: Token},
			{Status: []int{403, 429}, Says: []string{"reason=quotaExceeded", "reason=dailyLimitExceeded"}, Until: pacific, Scope: Token},
		},
	},

	// Scholarly and wikis
	{
		Name: "mediawiki",
		Refusals: []Refusal{
			{In: "mediawiki-api-error", Status: []int{200, 429, 503}, Says: []string{"maxlag"}, Scope: Site},
			{In: "mediawiki-api-error", Status: []int{200, 429, 503}, Says: []string{"ratelimited"}, Scope: Token},
		},
	},
	{
		Name: "wikimedia",
		Hosts: []string{
			"*.wikipedia.org", "*.wikimedia.org", "www.wikidata.org", "*.wiktionary.org", "*.wikisource.org", "*.wikibooks.org",
			"*.wikiquote.org", "*.wikinews.org", "*.wikiversity.org", "*.wikivoyage.org", "www.mediawiki.org",
		},
		Paths: []string{"/w/api.php"},
		Refusals: []Refusal{
			{Status: served, Says: []string{"code=maxlag"}, And: `"error`, Scope: Site, Overload: true},
			{Status: served, Says: []string{"code=ratelimited"}, And: `"error`, Scope: Token},
		},
		// https://www.mediawiki.org/wiki/API:Etiquette: requests in series, not in parallel
		Limits: []KnownLimit{{AtOnce: 1, Scope: Site}},
	},
	{
		Name: "stack exchange", Hosts: []string{"api.stackexchange.com"},
		Body: []Header{
			{Name: "quota_max", Is: IsLimit, Of: "quota"},
			{Name: "quota_remaining", Is: IsRemaining, Of: "quota"},
		},
		Refusals: []Refusal{
			{Says: []string{"error_name=throttle_violation"}, Prose: "available in", Scope: Site},
			{Status: []int{200}, Says: []string{"backoff=*"}, Key: "backoff", Hint: true, Scope: Route},
		},
		// https://api.stackexchange.com/docs/throttle: more than 30 requests per second from one address are dropped
		Limits: []KnownLimit{{Requests: 30, Per: time.Second, Scope: Site}},
	},
	{
		Name:    "crossref",
		Headers: []Header{{Name: "x-concurrency-limit", Is: IsLimit, Of: "concurrency", Unit: Concurrent}},
	},

	// Fitness and addresses
	{
		Name: "strava", Hosts: []string{"www.strava.com", "strava.com"},
		Headers: []Header{
			{Name: "x-ratelimit-limit", Is: IsLimit, Form: List, Of: "all", Windows: []time.Duration{15 * minute, day}, Aligned: true},
			{Name: "x-ratelimit-usage", Is: IsUsed, Form: List, Of: "all", Windows: []time.Duration{15 * minute, day}, Aligned: true},
			{Name: "x-readratelimit-limit", Is: IsLimit, Form: List, Of: "read", Windows: []time.Duration{15 * minute, day}, Aligned: true, Method: "GET"},
			{Name: "x-readratelimit-usage", Is: IsUsed, Form: List, Of: "read", Windows: []time.Duration{15 * minute, day}, Aligned: true, Method: "GET"},
		},
	},
	{
		Name: "ip-api", Hosts: []string{"ip-api.com", "pro.ip-api.com"},
		Headers: []Header{
			{Name: "x-rl", Is: IsRemaining, Scope: Site},
			{Name: "x-ttl", Is: IsReset, Scope: Site, In: time.Second},
		},
	},

	// Exchanges
	{
		Name: "binance",
		Headers: []Header{
			{Name: "x-mbx-used-weight-*", Is: IsUsed, Form: Suffix, Of: "weight", Unit: Weight, Scope: Site},
			{Name: "x-sapi-used-ip-weight-*", Is: IsUsed, Form: Suffix, Of: "sapi ip weight", Unit: Weight, Scope: Site},
			{Name: "x-sapi-used-uid-weight-*", Is: IsUsed, Form: Suffix, Of: "sapi uid weight", Unit: Weight, Scope: Token},
			{Name: "x-mbx-order-count-*", Is: IsUsed, Form: Suffix, Of: "orders", Unit: "orders", Scope: Token},
		},
	},
	{
		Name: "kraken", Hosts: []string{"api.kraken.com", "futures.kraken.com"},
		Refusals: []Refusal{
			{Status: served, Says: []string{"EService: Throttled", "EService:Throttled"}, Prose: "Throttled:", Scope: Token},
			{Status: served, Says: []string{"EAPI:Rate limit exceeded", "EOrder:Rate limit exceeded", "EGeneral:Too many requests"}, Scope: Token},
		},
	},

	// Clouds and edges
	{
		Name:    "azure resource manager",
		Headers: []Header{{Name: "x-ms-ratelimit-remaining-resource", Is: IsRemaining, Form: Named}},
		Refusals: []Refusal{
			{Status: []int{409, 429}, Says: []string{"code=RetryableErrorDueToAnotherOperation"}, Lock: true, Scope: Route},
		},
	},
	{
		Name: "aws",
		Refusals: []Refusal{
			{Status: []int{400, 403, 429, 500, 503}, In: "x-amzn-errortype", Says: throttlings},
		},
	},
	{
		Name: "amazonaws", Hosts: []string{"*.amazonaws.com", "*.amazonaws.com.cn", "*.api.aws"},
		Refusals: []Refusal{{Status: []int{400, 403, 429, 500, 503}, Says: throttlings}},
	},
	{
		Name: "s3", Hosts: []string{"s3.amazonaws.com", "*.s3.amazonaws.com"}, Scope: Route,
		Refusals: []Refusal{{Status: []int{503}, Says: slowDown, Scope: Site, Overload: true}},
	},
	{
		Name: "stores like s3",
		Refusals: []Refusal{
			{Status: []int{503}, Says: slowDown, Scope: Site, Overload: true},
		},
	},
	{
		Name: "cloudflare",
		Refusals: []Refusal{
			{Status: []int{403}, In: "cf-mitigated", Says: []string{"challenge"}, Fine: true},
			{Status: []int{403, 429, 503}, Says: []string{"error code: 1015", "Error 1015", "error 1015"}, Scope: Site},
		},
	},

	// Services that document a limit and do not announce it
	{
		// https://developers.notion.com/reference/request-limits: an average of three requests per second
		Name: "notion", Hosts: []string{"api.notion.com"}, Limits: []KnownLimit{{Requests: 3, Per: time.Second, Scope: Token}},
	},
	{
		// https://www.sec.gov/about/developer-resources: at most 10 requests per second
		Name: "sec", Hosts: []string{"www.sec.gov", "data.sec.gov", "efts.sec.gov"}, Limits: []KnownLimit{{Requests: 10, Per: time.Second, Scope: Site}},
	},
	{
		// https://info.arxiv.org/help/api/tou.html: one request every three seconds, and one connection
		Name: "arxiv", Hosts: []string{"export.arxiv.org"}, Paths: []string{"/api/", "/oai2", "/rss/"},
		Limits: []KnownLimit{{Requests: 1, Per: 3 * time.Second, Scope: Site}, {AtOnce: 1, Scope: Site}},
	},
	{
		// https://operations.osmfoundation.org/policies/nominatim/: at most 1 request per second
		Name: "nominatim", Hosts: []string{"nominatim.openstreetmap.org"}, Limits: []KnownLimit{{Requests: 1, Per: time.Second, Scope: Site}},
	},
	{
		// https://crates.io/data-access: at most 1 request per second
		Name: "crates.io", Hosts: []string{"crates.io"}, Paths: []string{"/api/"}, Limits: []KnownLimit{{Requests: 1, Per: time.Second, Scope: Site}},
	},
	{
		// https://musicbrainz.org/doc/MusicBrainz_API/Rate_Limiting: 1 request per second
		Name: "musicbrainz", Hosts: []string{"musicbrainz.org"}, Paths: []string{"/ws/"}, Limits: []KnownLimit{{Requests: 1, Per: time.Second, Scope: Site}},
	},
	{
		// https://developer.apple.com/library/archive/documentation/AudioVideo/Conceptual/iTuneSearchAPI/: about 20 calls per minute
		Name: "itunes", Hosts: []string{"itunes.apple.com"}, Paths: []string{"/search", "/lookup"},
		Limits: []KnownLimit{{Requests: 20, Per: minute, Scope: Site}},
	},
	{
		// https://open-meteo.com/en/terms, without a key: 600 calls per minute, 5,000 per hour, 10,000 per day
		Name: "open-meteo", Hosts: []string{"api.open-meteo.com"},
		Limits: []KnownLimit{{Requests: 600, Per: minute, Scope: Site}, {Requests: 5000, Per: time.Hour, Scope: Site}, {Requests: 10_000, Per: day, Scope: Site}},
	},

	// What many say alike
	{
		Name: "problem documents",
		Refusals: []Refusal{
			{Says: []string{"http-problem-types#quota-exceeded", "http-problem-types#abnormal-usage-detected"}},
			{Says: []string{"http-problem-types#temporary-reduced-capacity"}, Scope: Site, Overload: true},
		},
	},
	{
		Name: "github, wherever it is installed",
		Refusals: []Refusal{
			{Status: []int{403, 429}, Says: []string{"secondary rate limit", "abuse detection mechanism"}, Wait: minute, Scope: Token},
			{Status: []int{403, 429}, Says: []string{"API rate limit exceeded"}, Spent: true},
		},
	},
	{
		// Google's shape of errors, which other services and gateways use, too
		Name: "google, wherever it is spoken",
		Refusals: []Refusal{
			{Status: []int{403, 429, 503}, Says: []string{"retryDelay=*"}, Key: "retryDelay", And: `"error"`, Scope: Token},
			{Status: []int{403, 429}, Says: googleLimits, And: `"error"`, Scope: Token},
		},
	},
	{
		Name: "credentials",
		Refusals: []Refusal{
			{Status: []int{400, 402, 403, 429}, Says: unpaid, Permanent: true, Reason: "no credit", Scope: Token},
			{Status: []int{400, 403}, Says: suspended, Permanent: true, Reason: "account suspended", Scope: Token},
			{Status: []int{400, 403}, Says: invalid, Permanent: true, Reason: "not valid", Scope: Token},
		},
	},
	{
		Name: "blocks",
		Refusals: []Refusal{
			{Status: []int{403, 429, 503}, Says: blockPages, Block: true, Scope: Site},
			{Status: []int{403, 429, 503}, Says: blockedAddresses, And: "blocked", Block: true, Scope: Site},
			{Status: []int{403, 429, 503}, Says: incapsula, And: "Incapsula", Block: true, Scope: Site},
			{Status: []int{403}, Says: rateWords, Block: true, Scope: Site},
			{Status: []int{503, 529}, Says: []string{"overloaded_error", "OVERLOADED"}, Overload: true, Scope: Site},
			{Status: []int{403, 429, 503}, Says: concurrencyWords, And: "oncurren", Concurrency: true},
			{Status: []int{403, 429, 503}, Says: simultaneousWords, And: "simultaneous", Concurrency: true},
		},
	},
	{
		Name: "retry_after in a body",
		Refusals: []Refusal{
			{Status: []int{420, 429}, Says: []string{"retry_after=*"}, Key: "retry_after"},
			{Status: []int{420, 429}, Says: []string{"retryAfter=*"}, Key: "retryAfter"},
		},
	},
}

// unpaid are the texts of refusals because of a credential that is not paid for: of OpenAI,
// Anthropic, OpenRouter, DeepSeek, X and others.
var unpaid = []string{
	"type=insufficient_quota", "code=insufficient_quota", "code=billing_not_active", "code=billing_hard_limit_reached",
	"redit balance is too low", "nsufficient credits", "nsufficient Balance", "nsufficient balance", "nsufficient funds",
	"title=CreditsDepleted", "type=https://api.twitter.com/2/problems/credits", "title=SpendCapReached",
	"error=payment_required", "code=payment_required", "type=payment_required", "code=insufficient_credits", "error=insufficient_credits",
}

// suspended are the texts of refusals because of an account that is suspended. They name the
// account of the caller, since the account that a page is about may be suspended, too.
var suspended = []string{
	"our account was suspended", "our account is suspended", "our account has been suspended", "our account has been disabled", "our account is disabled",
	"code=account_deactivated", "code=account_suspended", "error=account_suspended", "error=account_inactive",
}

// invalid are the texts of refusals because of a credential that is not valid.
var invalid = []string{
	"code=invalid_api_key", "reason=API_KEY_INVALID", "API key not valid", "code=token_revoked", "error=token_revoked",
	"code=token_expired", "error=token_expired", "reason=client-not-enrolled",
}

// googleLimits are the reasons of Google's errors that are about a rate.
var googleLimits = []string{
	"reason=quotaExceeded", "reason=dailyLimitExceeded", "reason=rateLimitExceeded", "reason=userRateLimitExceeded", "reason=RATE_LIMIT_EXCEEDED",
	"reason=servingLimitExceeded", "reason=concurrentLimitExceeded", "status=RESOURCE_EXHAUSTED",
}

// slowDown is the refusal of S3 and stores like it while they grow.
var slowDown = []string{"<Code>SlowDown</Code>", "<Code>SlowDownRead</Code>", "<Code>SlowDownWrite</Code>"}

// blockPages are phrases of the pages by which sites and their edges block a client: of the
// SEC, Akamai, Google and others.
var blockPages = []string{
	"Request Rate Threshold Exceeded", "Undeclared Automated Tool", "errors.edgesuite.net", "unusual traffic from your computer network",
}

// blockedAddresses are phrases of such pages about an address, and incapsula those of Imperva.
var (
	blockedAddresses = []string{
		"Your IP has been blocked", "Your IP address has been blocked", "Your IP has been temporarily blocked", "has been temporarily blocked due to",
	}
	incapsula = []string{"Incapsula incident ID", "_Incapsula_Resource"}
)

// rateWords are the words of a refusal that is about a rate, and not about a permission.
var rateWords = []string{
	"Rate Limit", "Rate limit", "rate limit", "equest rate", "equest Rate", "oo many requests", "oo Many Requests", "ate exceeded", "ate Exceeded",
}

// concurrencyWords and simultaneousWords are the words of a refusal that is about requests in
// flight.
var (
	concurrencyWords  = []string{"oncurrent requests", "oncurrency limit", "oncurrent request limit"}
	simultaneousWords = []string{"simultaneous requests", "simultaneous connections"}
)

// throttlings are the errors by which AWS throttles.
var throttlings = []string{
	"ThrottlingException", "ThrottledException", "Throttling", "RequestThrottled", "TooManyRequestsException",
	"ProvisionedThroughputExceeded", "RequestLimitExceeded", "BandwidthLimitExceeded", "SlowDown",
	"PriorRequestNotComplete", "TransactionInProgressException",
}
