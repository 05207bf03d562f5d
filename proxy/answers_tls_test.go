package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

func TestALineIsWrittenOnceAndTheMemoryOfItIsBounded(t *testing.T) {
	var l lineLimit
	now := time.Now()
	if !l.due("a", now, time.Minute) || l.due("a", now.Add(59*time.Second), time.Minute) || !l.due("b", now, time.Minute) {
		t.Error("it is due at the wrong times")
	}
	if !l.due("a", now.Add(time.Minute), time.Minute) {
		t.Error("it is not due after a minute")
	}
	for i := range 5 * maxLines {
		l.due(fmt.Sprint(i), now, time.Minute)
	}
	if len(l.last) > maxLines || l.due("one more", now, time.Minute) {
		t.Errorf("%d are remembered", len(l.last))
	}
	if !l.due("one more", now.Add(2*time.Minute), time.Minute) || len(l.last) > 2 {
		t.Errorf("afterwards %d are remembered", len(l.last))
	}
}
