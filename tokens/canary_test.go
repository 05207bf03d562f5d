package tokens

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/abide-proxy/abide/policy"
)

const canary = "canary-4711/+x"

// TestNothingPrintsASecret prints everything that this package gives out, and
// what holds it, in every way that there is.
func TestNothingPrintsASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.handler = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token": "given-%s", "expires_in": 3600}`, canary)
		}
		config := policy.Pool{
			Name: "p", Put: bearer(), OAuth2: exchanging,
			Tokens: []policy.Token{{Label: "alice", Secret: policy.NewSecret("id:" + canary)}, {Label: "bob", Secret: policy.NewSecret("id2:" + canary)}},
		}
		l, err := Load(t.Context(), config, Surroundings{Config: "abide.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(start, config, l, s)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		set := p.Set()
		a := set.Tokens()[0]
		secret, err := set.Credential(t.Context(), a)
		if err != nil || secret.Reveal() != "given-"+canary {
			t.Fatal(err)
		}
		synctest.Wait() // the exchange is over
		var d Denials
		denyResult := p.Deny(start, a, Answer{Status: 401, Sent: start}, &d)
		type holder struct {
			Token *Token
			Set   *Set
			Pool  *Pool
			own   *Token
			Entry entry
			Map   map[string]*Token
			Any   any
		}
		things := []any{
			a, *a, set, *set, p, l, *l, l.Entries, l.Entries[0], set.Tokens(), set.Placement(), *set.Placement(), secret, d, &d, denyResult, config,
			p.Status(start), p.SavedStates(start), p.Availability(start, a, ""), a.state, set.exchange, p.exchanges, set.exchange.grants, set.exchange.grants[a.id],
			holder{a, set, p, a, l.Entries[0], map[string]*Token{"x": a}, *a},
			&holder{own: a, Any: a},
			[]any{a},
			map[*Token]int{a: 1},
			[]Token{*a},
			fmt.Errorf("wrapped: %w", errorOf{a}),
		}
		for _, thing := range things {
			for _, verb := range strings.Split("v +v #v s q x X d T p 20s +q #x", " ") {
				clean(t, fmt.Sprintf("%"+verb, thing))
			}
			if text, err := json.Marshal(thing); err == nil {
				clean(t, string(text))
			}
			if text, err := xml.Marshal(thing); err == nil {
				clean(t, string(text))
			}
			var b bytes.Buffer
			_ = gob.NewEncoder(&b).Encode(thing)
			slog.New(slog.NewTextHandler(&b, nil)).Info("x", "thing", thing)
			slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "thing", thing)
			clean(t, b.String())
		}
		if got := fmt.Sprintf("%v %s %q %+v", a, *a, a, set.Tokens()); got != `alice alice "alice" [alice bob]` {
			t.Error(got)
		}
		for _, one := range []any{a, *a, set, p} { // what YAML asks for, too
			if text, err := one.(encoding.TextMarshaler).MarshalText(); err != nil || string(text) != fmt.Sprint(one) {
				t.Errorf("%s, %v", text, err)
			}
		}
		if text, err := json.Marshal(map[string]any{"t": a}); err != nil || string(text) != `{"t":"alice"}` {
			t.Error(string(text), err)
		}
	})
}

type errorOf struct{ token *Token }

func (e errorOf) Error() string { return fmt.Sprintf("the token %v %#v", e.token, e.token) }

// clean looks for the canary in every form.
func clean(t *testing.T, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for _, form := range []string{
		canary, "canary-4711", url.QueryEscape(canary), url.PathEscape(canary), hex.EncodeToString([]byte("canary-4711")),
		"63 61 6e 61 72 79", base64.StdEncoding.EncodeToString([]byte("canary-47")), fmt.Sprint([]byte("canary")), fmt.Sprintf("%#v", []byte("canary")),
	} {
		if strings.Contains(lower, strings.ToLower(strings.Trim(form, "[]"))) {
			t.Fatalf("a secret: %.300s", text)
		}
	}
}
