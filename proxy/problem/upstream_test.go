package problem

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/proxy/upstream"
)

func TestEveryTLSFaultHasAnAnswerOfItsOwn(t *testing.T) {
	titles := map[string]upstream.TLSFault{}
	for fault := upstream.TLSOther; fault <= upstream.TLSCut; fault++ {
		a := OfUpstream(&upstream.Error{Kind: upstream.TLS, TLS: &upstream.TLSFailure{Fault: fault}})
		if a.Title == "" || a.Detail == "" || a.proxy == "" || a.Status != 502 || a.Reason != fault.String() {
			t.Errorf("%v: %+v", fault, a)
		}
		if other, twice := titles[a.Title]; twice {
			t.Errorf("%v and %v have one title", fault, other)
		}
		titles[a.Title] = fault
	}
}

func TestAFailureWithTheNextProxySaysWhichAndNamesNothingOfIt(t *testing.T) {
	a := OfUpstream(&upstream.Error{Kind: upstream.Hop, TLS: &upstream.TLSFailure{Fault: upstream.TLSName, Names: []string{"proxy.inner.test"}}})
	body, _ := io.ReadAll(a.Response(&http.Request{}, "a.test").Body)
	if a.Reason != "next_hop" || !strings.Contains(string(body), "the next proxy's certificate is for another name") || strings.Contains(string(body), "inner") {
		t.Errorf("%s", body)
	}
	if plain := OfUpstream(&upstream.Error{Kind: upstream.Hop}); plain.Title != Of(upstream.Hop).Title {
		t.Errorf("without TLS: %+v", plain)
	}
}
