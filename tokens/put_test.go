package tokens

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func request(t *testing.T, target string, headers ...string) *http.Request {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{Method: "GET", URL: u, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return r
}

func putting(t *testing.T, p policy.Placement) *placement {
	t.Helper()
	put, err := newPlacement(p)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

func TestARequestHasExactlyOneTokenHoweverOftenItIsSent(t *testing.T) {
	put := putting(t, bearer())
	r := request(t, "https://api.test/a", "Authorization", "Bearer mine", "Authorization", "Basic bWluZQ==", "Accept", "*/*")
	for _, secret := range []string{"s1", "s2"} {
		put.Apply(r, policy.NewSecret(secret))
		if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+secret || len(r.Header) != 2 {
			t.Fatal(r.Header)
		}
	}
	put.Strip(r)
	if len(r.Header) != 1 {
		t.Fatal(r.Header)
	}
}

func TestHeadersThatAServerMayTakeForTheTokenAreRemoved(t *testing.T) {
	for _, one := range []struct {
		put    policy.Placement
		header string
		gone   []string
		stay   []string
	}{
		{bearer(), "Authorization", []string{"authorization", "AUTHORIZATION", "Authorization"}, []string{"X-Authorization", "Authorizations"}},
		{policy.Placement{Where: "header", Name: "X-Api-Key"}, "X-Api-Key", []string{"X_Api_Key", "x-api_key", "X-API-KEY", "x_api-key"}, []string{"Xapikey", "X-Api-Keys", "Authorization"}},
		{policy.Placement{Where: "header", Name: "X_token"}, "X_token", []string{"X-Token", "x_TOKEN"}, nil},
		{policy.Placement{Where: "basic"}, "Authorization", []string{"authorization"}, nil},
	} {
		r := request(t, "https://user:pw@api.test/")
		r.Trailer = http.Header{}
		for _, name := range one.gone {
			r.Header[name] = []string{"client", "client"}
			r.Trailer[name] = []string{"client"}
		}
		for _, name := range one.stay {
			r.Header[name] = []string{"stays"}
		}
		put := putting(t, one.put)
		put.Apply(r, policy.NewSecret("id:s1"))
		if len(r.Header) != len(one.stay)+1 || len(r.Header[put.name]) != 1 || len(r.Trailer) != 0 {
			t.Errorf("%v, %v", r.Header, r.Trailer)
		}
		if (r.URL.User == nil) != (put.name == "Authorization") {
			t.Error(r.URL.User)
		}
	}
}

func TestATokenGoesIntoABasicCredential(t *testing.T) {
	for before, after := range map[string]string{"": "", "api:": "", "x": ":y"} {
		r := request(t, "https://api.test/")
		putting(t, policy.Placement{Where: "basic", Before: before, After: after}).Apply(r, policy.NewSecret("id:s1"))
		if want := "Basic " + base64.StdEncoding.EncodeToString([]byte(before+"id:s1"+after)); r.Header.Get("Authorization") != want {
			t.Error(r.Header)
		}
	}
}

func TestATokenGoesIntoAQueryAndLeavesTheRestAsItWas(t *testing.T) {
	put := putting(t, policy.Placement{Where: "query", Name: "api_key"})
	for raw, want := range map[string]string{
		"":                               "api_key=a%26b%2B",
		"q=1":                            "q=1&api_key=a%26b%2B",
		"q=%7e&api_key=mine&r=+%20":      "q=%7e&api_key=a%26b%2B&r=+%20",
		"api_key":                        "api_key=a%26b%2B",
		"api_key=1&x&api_key=2&API_KEY=": "api_key=a%26b%2B&x",
		"api%5Fkey=1&my_api_key=2":       "api_key=a%26b%2B&my_api_key=2",
		"&a=1":                           "&a=1&api_key=a%26b%2B",
		"a;b=c&%zz=1&&=":                 "a;b=c&%zz=1&&=&api_key=a%26b%2B",
	} {
		r := request(t, "https://api.test/?"+raw, "Authorization", "Basic mine")
		for range 2 {
			put.Apply(r, policy.NewSecret("a&b+"))
			if r.URL.RawQuery != want {
				t.Fatalf("%s: %s", raw, r.URL.RawQuery)
			}
		}
		if r.Header.Get("Authorization") != "Basic mine" {
			t.Error("a header that has nothing to do with it is gone")
		}
	}
	r := request(t, "https://api.test/?q=1&api_key=s&r=2")
	if put.Strip(r); r.URL.RawQuery != "q=1&r=2" {
		t.Error(r.URL.RawQuery)
	}
}

func TestAnAnswerDoesNotShowTheTokenAgain(t *testing.T) {
	secret := policy.NewSecret("a/b+c")
	for _, p := range []policy.Placement{bearer(), {Where: "query", Name: "k"}, {Where: "basic", Before: "x:"}} {
		put := putting(t, p)
		h := http.Header{"Location": {"https://api.test/?k=a%2Fb%2Bc&q=1"}, "X-Echo": {"fine", put.value(secret), "a%2Fb+c"}, "Link": {"</?k=a/b+c>"}}
		if !put.Finder(secret).Headers(h, "{token}") || h.Get("Location") != "https://api.test/?k={token}&q=1" || h["X-Echo"][0] != "fine" || h.Get("Link") != "</?k={token}>" {
			t.Error(h)
		}
		if put.Finder(secret).Headers(h, "{token}") {
			t.Errorf("still there: %v", h)
		}
	}
}

func TestAPlaceNobodyKnowsIsRefused(t *testing.T) {
	for _, p := range []policy.Placement{{}, {Where: "cookie", Name: "a"}, {Where: "header"}, {Where: "query"}} {
		if _, err := newPlacement(p); err == nil {
			t.Error(p)
		}
	}
}
