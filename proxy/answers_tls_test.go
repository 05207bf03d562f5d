package proxy

import (
	"strings"
	"testing"

	"github.com/abide-proxy/abide/upstream"
)

func TestEveryTLSFaultHasAnAnswerOfItsOwn(t *testing.T) {
	titles := map[string]upstream.TLSFault{}
	for fault := upstream.TLSOther; fault <= upstream.TLSCut; fault++ {
		a := upstreamAnswer(&upstream.Error{Kind: upstream.TLS, TLS: &upstream.TLSFailure{Fault: fault}})
		if a.title == "" || a.detail == "" || a.proxy == "" || a.status != 502 || a.reason != fault.String() {
			t.Errorf("%v: %+v", fault, a)
		}
		if other, twice := titles[a.title]; twice {
			t.Errorf("%v and %v have one title", fault, other)
		}
		titles[a.title] = fault
	}
}

func TestAFailureWithTheNextProxySaysWhichAndNamesNothingOfIt(t *testing.T) {
	a := upstreamAnswer(&upstream.Error{Kind: upstream.Hop, TLS: &upstream.TLSFailure{Fault: upstream.TLSName, Names: []string{"proxy.inner.test"}}})
	body := string(a.body("a.test"))
	if a.reason != "next_hop" || !strings.Contains(body, "the next proxy's certificate is for another name") || strings.Contains(body, "inner") {
		t.Errorf("%s", body)
	}
	if plain := upstreamAnswer(&upstream.Error{Kind: upstream.Hop}); plain.title != upstreamAnswers[upstream.Hop].title {
		t.Errorf("without TLS: %+v", plain)
	}
}
