package clients

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestATokenArrivesWhereItsRuleNamesAndNowhereElse sends a request to
// everything that looks like the host of a token. What the rule's names mean is in
// policy's tests; here it counts what arrives.
func TestATokenArrivesWhereItsRuleNamesAndNowhereElse(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	also := []string{"api.test:8443", "alt.test:443", "alt.test:8443"}
	for _, host := range []string{
		"a.deep.test", "a.b.deep.test", "deep.test", "evildeep.test", "deep.test.evil.test",
		"api.test.evil.test", "evil-api.test", "x.api.test", "xn--pi-6kc.test", "api.tes", "pi.test", "api-test.evil.test",
	} {
		also = append(also, host+":443")
	}
	a := startAbide(t, setup{intercept: "all", also: also, more: `
pools:
  p: {tokens: [{label: one, secret: canary}]}
sites:
  - {host: [api.test, "*.deep.test", "alt.test:8443"], pool: p}
`}, o)
	const (
		token = "token" // it arrives, with the token
		none  = "none"  // it arrives as the client sent it
	)
	for _, one := range []struct {
		connect, target, host string // a tunnel to there, the request's target and its Host
		want                  string // or the status of a refusal
	}{
		{"api.test:443", "/", "api.test", token},
		{"API.TEST:443", "/", "Api.Test", token},
		{"api.test.:443", "/", "api.test.", token},
		{"api.test:443", "/", "api.test:443", token},
		{"", "https://api.test/", "api.test", token},
		{"", "https://API.test.:443/", "api.test", token},
		{"a.deep.test:443", "/", "a.deep.test", token},
		{"a.b.deep.test:443", "/", "a.b.deep.test", token},
		{"alt.test:8443", "/", "alt.test:8443", token},

		{"api.test.evil.test:443", "/", "api.test.evil.test", none},
		{"evil-api.test:443", "/", "evil-api.test", none},
		{"x.api.test:443", "/", "x.api.test", none},
		{"xn--pi-6kc.test:443", "/", "xn--pi-6kc.test", none}, // a Cyrillic а
		{"", "https://аpi.test/", "api.test", none},
		{"api.tes:443", "/", "api.tes", none},
		{"pi.test:443", "/", "pi.test", none},
		{"api-test.evil.test:443", "/", "api-test.evil.test", none},
		{"deep.test:443", "/", "deep.test", none},
		{"evildeep.test:443", "/", "evildeep.test", none},
		{"deep.test.evil.test:443", "/", "deep.test.evil.test", none},
		{"alt.test:443", "/", "alt.test", none},
		{"", "https://evil-api.test/?next=https://api.test/", "evil-api.test", none},
		{o.secure, "/", o.secure, none}, // the address of the host

		{"api.test:8443", "/", "api.test:8443", "403"},
		{"api.test:80", "/", "api.test", "403"},
		{"", "http://api.test/", "api.test", "403"},
		{"", "http://api.test:443/", "api.test:443", "403"},
		{"", "https://user@api.test/", "api.test", "400"},
		{"", "https://api.test@evil-api.test/", "evil-api.test", "400"},
		{"", "https://api.test%2eevil-api.test/", "api.test", "400"},
		{"", "https://api.test%00/", "api.test", "400"},
		{"user@api.test:443", "/", "api.test", "400"},
		{"api.test%2eevil.test:443", "/", "api.test", "400"},

		// A tunnel to one and the words of another.
		{"evil-api.test:443", "/", "api.test", "421"},
		{"evil-api.test:443", "https://api.test/", "api.test", "421"},
		{"api.test:443", "/", "evil-api.test", "421"},
		{"api.test:443", "https://evil-api.test/", "evil-api.test", "421"},
	} {
		before := len(o.requests())
		request := "GET " + one.target + " HTTP/1.1\r\nHost: " + one.host + "\r\nAuthorization: Bearer dummy\r\nConnection: close\r\n\r\n"
		answer := a.speak(t, one.connect, request)
		got := fmt.Sprint(answer.status)
		for _, r := range o.requests()[before:] {
			switch values := r.Header["Authorization"]; {
			case slices.Equal(values, []string{"Bearer canary"}):
				got = token
			case slices.Equal(values, []string{"Bearer dummy"}):
				got = none
			default:
				t.Errorf("%q: Authorization is %q", one, values)
			}
		}
		if got != one.want {
			t.Errorf("%q: %s, not %s\n%s%s", one, got, one.want, answer.head, answer.body)
		}
		if label := answer.header.Get("Abide-Token"); (label == "one") != (one.want == token) {
			t.Errorf("%q: Abide-Token: %s", one, label)
		}
		if one.want == "403" && !strings.Contains(answer.body, "urn:abide:insecure") {
			t.Errorf("%q: %s", one, answer.body)
		}
	}
}

// TestAStreamOfHTTP2ThatNamesAnotherHostGetsNoToken: browsers send what they have
// for one host on the connection of another, where its certificate has both names.
func TestAStreamOfHTTP2ThatNamesAnotherHostGetsNoToken(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	a := startAbide(t, setup{intercept: "all", also: []string{"evil-api.test:443"}, more: poolOf("api.test")}, o)
	c := a.client(t)
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	for _, one := range []struct {
		host, authority string
		status          int
	}{
		{"api.test", "api.test", 200},
		{"api.test", "evil-api.test", 421},
		{"evil-api.test", "api.test", 421},
		{"evil-api.test", "evil-api.test", 200},
	} {
		before := len(o.requests())
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+one.host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = one.authority
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer := whole(t, response)
		if answer.status != one.status || response.ProtoMajor != 2 {
			t.Errorf("%s as %s: %s%s", one.authority, one.host, answer.head, answer.body)
		}
		for _, r := range o.requests()[before:] {
			if with := len(r.Header["Authorization"]) > 0; with != (one.host == "api.test" && one.authority == "api.test") || r.Host != one.host {
				t.Errorf("%s as %s: %s was asked with %q", one.authority, one.host, r.Host, r.Header["Authorization"])
			}
		}
	}
}

// TestNothingThatEchoesItsHeadersIsAsked: what the origin's own headers and
// answers repeat is for the tests of secrets.
func TestNothingThatEchoesItsHeadersIsAsked(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	a := startAbide(t, setup{intercept: "auto", more: poolOf("api.test")}, o)
	for _, method := range []string{"TRACE", "TRACK", "trace"} {
		answer := a.speak(t, "api.test:443", method+" / HTTP/1.1\r\nHost: api.test\r\nMax-Forwards: 0\r\n\r\n")
		if answer.status != http.StatusMethodNotAllowed && answer.status != http.StatusNotImplemented {
			t.Errorf("%s: %s", method, answer.head)
		}
	}
	if got := o.requests(); len(got) != 0 {
		t.Errorf("%v reached the origin", got)
	}
}

// poolOf is a pool of two tokens for a host.
func poolOf(host string, more ...string) string {
	return fmt.Sprintf(`
pools:
  p: {tokens: [{label: one, secret: canary-1}, {label: two, secret: canary-2}]%s}
sites:
  - {host: %q, pool: p}
`, strings.Join(append([]string{""}, more...), ", "), host)
}

// TestTheHostOfATokenHasALeafOfAbidesOwnCA: what the packages ca and proxy make
// sure of, of the binary with a pool.
func TestTheHostOfATokenHasALeafOfAbidesOwnCA(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	a := startAbide(t, setup{intercept: "auto", more: poolOf("api.test")}, o)
	response, err := a.client(t).Get("https://api.test/") // by the roots of a alone
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Abide-Token") == "" {
		t.Errorf("%s, %v", response.Status, response.Header)
	}
	for _, chain := range response.TLS.VerifiedChains {
		for _, certificate := range chain {
			if text := certificate.Issuer.String() + certificate.Subject.String(); strings.Contains(strings.ToLower(text), "goproxy") || !ours(certificate) {
				t.Errorf("the chain has %s", text)
			}
		}
	}
}

// ours tells whether abide has signed it.
func ours(c *x509.Certificate) bool {
	return strings.Contains(strings.ToLower(c.Issuer.String()), "abide")
}
