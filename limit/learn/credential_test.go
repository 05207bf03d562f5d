package learn

import "testing"

// TestACredentialThatIsNotPaidForOrNotValidIsRecognized: what waiting does not mend names its
// reason, and nothing else does.
func TestACredentialThatIsNotPaidForOrNotValidIsRecognized(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		reason string
	}{
		{"OpenAI", 429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota, please check your plan and billing details."}}`, "no credit"},
		{"OpenAI, billing", 429, `{"error":{"code":"billing_not_active","message":"Your account is not active"}}`, "no credit"},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, "no credit"},
		{"OpenRouter", 402, `{"error":{"code":402,"message":"Insufficient credits. Add more using https://openrouter.ai/credits"}}`, "no credit"},
		{"DeepSeek", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error"}}`, "no credit"},
		{"X", 402, `{"title":"CreditsDepleted","detail":"Your enrolled account does not have any credits to fulfill this request.","type":"https://api.twitter.com/2/problems/credits"}`, "no credit"},
		{"GitHub", 403, `{"message":"Sorry. Your account was suspended."}`, "account suspended"},
		{"Google", 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","details":[{"reason":"API_KEY_INVALID"}]}}`, "not valid"},
		{"X, a page of somebody suspended", 403, `{"errors":[{"code":63,"detail":"User has been suspended: [gopher]."}]}`, ""},
		{"a page about credits", 200, `Insufficient credits`, ""},
		{"a missing parameter", 400, `{"error":"account: no such parameter"}`, ""},
		{"a repository that is private", 403, `{"message":"Resource not accessible by personal access token"}`, ""},
	} {
		l := Read(c.status, nil, []byte(c.body), Request{Method: "GET", Host: "api.example.com", Path: "/"}, base)
		if l.Permanent != (c.reason != "") || l.Reason != c.reason {
			t.Errorf("%s: permanent %v, %q, want %q", c.name, l.Permanent, l.Reason, c.reason)
		}
		if l.Permanent && !l.RetryAt.IsZero() {
			t.Errorf("%s: asks to wait until %v", c.name, l.RetryAt)
		}
	}
}
