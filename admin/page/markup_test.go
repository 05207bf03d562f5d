package page

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	parse "golang.org/x/net/html"

	"github.com/abide-proxy/abide/status"
)

// shape has the elements of a page, and their attributes without values.
func shape(t *testing.T, text string) (list []string) {
	t.Helper()
	tokens := parse.NewTokenizer(strings.NewReader(text))
	for kind := tokens.Next(); kind != parse.ErrorToken; kind = tokens.Next() {
		token := tokens.Token()
		if kind == parse.TextToken || kind == parse.DoctypeToken {
			continue
		}
		list = append(list, kind.String()+" "+token.Data)
		for _, one := range token.Attr {
			list = append(list, one.Key)
			if (one.Key == "href" || one.Key == "action" || one.Key == "src") && !strings.HasPrefix(one.Val, "/") && !strings.HasPrefix(one.Val, docs) && one.Val[0] != '#' {
				t.Errorf("<%s %s=%q>", token.Data, one.Key, one.Val)
			}
		}
	}
	return list
}

// suffixed adds a text to each text of a value, except to those that are one of a few words.
func suffixed(v reflect.Value, suffix string) {
	switch v.Kind() {
	case reflect.String:
		if v.String() != "" {
			v.SetString(v.String() + suffix)
		}
	case reflect.Slice:
		for i := range v.Len() {
			suffixed(v.Index(i), suffix)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			suffixed(v.Elem(), suffix)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			name, value := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
			name.Set(key)
			value.Set(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Value{})
			suffixed(name, suffix)
			suffixed(value, suffix)
			v.SetMapIndex(name, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).CanSet() && !slices.Contains([]string{"State", "Breaker", "Kind", "Rule"}, name) {
				suffixed(v.Field(i), suffix)
			}
		}
	}
}

// full has a text of others at each place of the page.
func full() *Facts {
	f := ill()
	f.Version, f.Proxy, f.Open, f.Setup, f.Filter = "v1", "http://proxy", "http://open", "abide env", "t"
	f.CA = &status.CA{Subject: "subject", SHA256: "sum", Names: []string{"name.test"}}
	f.Chosen, f.Past.Err = &Chosen{Site: "site-0001.test", Limits: "limits", Set: true}, "no disk"
	f.Advice = []status.Advice{{Site: "a.test", Text: "advice", Change: "change"}}
	f.Past.Periods = []Period{{Name: "hour", Since: noon.Add(-time.Hour), Step: time.Minute, Steps: 61, Traffic: []status.Traffic{{Site: "a.test", Start: noon, In: 9}}}}
	f.Store = &status.Store{Kind: status.StoreShared, Members: []status.Member{{Name: "member"}}}
	f.Unread = &status.Unread{SiteCount: 1, Sites: []status.SiteUnread{{Site: "a.test", Reasons: []status.UnreadReason{{Reason: "reason"}}}}}
	f.Known[0].Pool, f.Known[1].LimitedBy, f.Known[2].Breaker, f.Known[1].Unread = "api", "5 per 1s", "open", &f.Unread.Sites[0]
	f.Known[0].Paused = &status.Pause{Reason: "they move"}
	f.Holds = append(f.Holds[:40], status.Hold{Site: "a.test", Client: "client", Limit: "limit", Why: "why"})
	f.Waiting = status.SumWaits(f.Holds)
	for i := range f.Tokens.Pools[0].Tokens {
		token := &f.Tokens.Pools[0].Tokens[i]
		token.Twins, token.Limits, token.Written = []string{"twin"}, []status.Announced{{Site: "a.test", Title: "5 per 1s", Limit: 5, Route: "GET /a"}}, []status.Limit{{Site: "a.test", Limit: "written", Of: "of", Amount: 5}}
	}
	f.Failures.Add("a.test", "403", 7)
	return f
}

// TestTextsOfOthersStayTexts: whatever is in them, wherever they are, the page has the same elements and attributes.
func TestTextsOfOthersStayTexts(t *testing.T) {
	with := func(suffix string) (page string) {
		f := full()
		suffixed(reflect.ValueOf(f).Elem(), suffix)
		p := status.Problem{Title: "title" + suffix, Detail: "detail" + suffix}
		faults := status.Problem{Faults: []status.Fault{{Key: "key" + suffix, Text: "text" + suffix}}}
		r := status.Report{By: "site", Rows: []status.ReportRow{{Name: "row" + suffix, Requests: 7}}, Denied: []status.DeniedToken{{Label: "label" + suffix}}}
		r.Add("a.test"+suffix, "403"+suffix, 7)
		f.Filter = strings.Replace(f.Filter, suffix, "", 1)
		text := string(Render(f, noon)) + string(Problem(p)) + string(Problem(faults)) + string(Report("site"+suffix, "/api?"+suffix, r))
		f.Filter = f.Chosen.Site
		return text + string(Render(f, noon))
	}
	want := shape(t, with(" x"))
	for _, hostile := range []string{`"><script>alert(1)</script>`, "'><svg onload=alert(1)>", " onload=alert(1) ", "javascript:alert(1)", "</textarea></title><b>", "&lt;b&gt;&", "{}{}", "\x00\xff\u202e"} {
		text := with(hostile)
		if got := shape(t, text); !slices.Equal(got, want) {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("%q: the page differs at %v", hostile, got[max(i-5, 0):min(i+5, len(got))])
		}
		if !strings.Contains(text, `href="/?site=down.test`+url.QueryEscape(hostile)+`"`) {
			t.Errorf("%q: no link", hostile)
		}
		if !strings.Contains(text, "<dd>subject"+strings.ReplaceAll(parse.EscapeString(hostile), "\x00", "\uFFFD")+", until") {
			t.Errorf("%q is not shown as it is", hostile)
		}
	}
	for _, link := range []string{"javascript:alert(1)", "//evil.example", "data:text/html,x"} {
		var b builder
		b.put("{}", named(link, link))
		shape(t, string(b.text))
	}
	if strings.Contains(with(" x"), "{}") {
		t.Error("a place has no value")
	}
}
