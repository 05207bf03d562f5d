package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// as has the rig's requests be those of a client of access.clients.
func (w rig) as(client, at string, headers ...string) result {
	return w.Get(at, append([]string{"Abide-Client", client}, headers...)...)
}

const twoClients = `
queue: {wait: 3h}
access:
  clients:
    - {name: news, secret: n, limits: [%s]}
    - {name: shop, secret: s}
`

func TestTheLimitsOfAClientHoldForAllItsSitesTogether(t *testing.T) {
	run(t, echoing, fmt.Sprintf(twoClients, "{requests: 10, per: 1m, as: fixed}"), func(w rig) {
		for i := range 25 {
			a := w.as("news", fmt.Sprintf("http://site%d.test/", i))
			if want := time.Duration(i/10) * time.Minute; a.Status != 200 || a.At < want || a.At > want+time.Second {
				t.Errorf("request %d: %d after %v, not %v", i, a.Status, a.At, want)
			}
			if i == 10 && (a.Waited < 59*time.Second || a.Limit != "" && !strings.Contains(a.Limit, "10 requests per 1m")) {
				t.Errorf("it has waited %v for %q", a.Waited, a.Limit)
			}
		}
		if a := w.as("shop", "http://site1.test/"); a.Waited != 0 {
			t.Errorf("another client has waited %v", a.Waited)
		}
		w.idle("client news")
	})
}

func TestALimitOfAClientRefusesWhatWouldWaitTooLong(t *testing.T) {
	run(t, echoing, fmt.Sprintf(twoClients, "{requests: 1, per: 1h}"), func(w rig) {
		w.as("news", "http://a.test/")
		a := w.as("news", "http://b.test/", "Abide-Max-Wait", "10m")
		if a.Status != 429 || a.Header.Get("Retry-After") != "3600" || !strings.Contains(a.Body, "1 request per 1h") {
			t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
		}
		if a := w.as("shop", "http://b.test/"); a.Status != 200 {
			t.Errorf("%d", a.Status)
		}
		w.idle("client news")
	})
}

func TestTheLimitsOfTheSiteHoldBesidesThoseOfTheClient(t *testing.T) {
	yaml := fmt.Sprintf(twoClients, "{requests: 4, per: 1m, as: fixed}") + "sites: [{host: site.test, limits: [{requests: 2, per: 10m, as: fixed}]}]\n"
	run(t, echoing, yaml, func(w rig) {
		for i, want := range []time.Duration{0, 0, 10 * time.Minute} {
			if a := w.as("news", "http://site.test/"); a.At != want {
				t.Errorf("request %d was answered after %v, not %v", i, a.At, want)
			}
		}
		if a := w.as("news", "http://site.test/", "Abide-Max-Wait", "0s"); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		// What the site's limit refuses was not sent, and takes nothing from the client's.
		for range 5 {
			if a := w.as("news", "http://site.test/", "Abide-Max-Wait", "0s"); a.Status != 429 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
		for range 3 {
			if a := w.as("news", "http://other.test/", "Abide-Max-Wait", "0s"); a.Status != 200 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
		if a := w.as("news", "http://other.test/", "Abide-Max-Wait", "0s"); a.Status != 429 || !strings.Contains(a.Body, "4 requests per 1m (fixed) of the client news") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}

func TestBytesOfAClientCountWhenItsRequestsEnd(t *testing.T) {
	big := func(rw http.ResponseWriter, r *http.Request) { rw.Write(make([]byte, 300_000)) }
	run(t, big, fmt.Sprintf(twoClients, "{bytes: 500KB, per: 1m}"), func(w rig) {
		for i, want := range []time.Duration{0, 0, time.Minute} {
			if a := w.as("news", fmt.Sprintf("http://site%d.test/", i)); a.At < want || a.At > want+time.Second {
				t.Errorf("request %d was answered after %v, not %v", i, a.At, want)
			}
		}
	})
}

func TestAReloadChangesTheLimitsOfAClientThatWaits(t *testing.T) {
	run(t, echoing, fmt.Sprintf(twoClients, "{requests: 1, per: 1h}"), func(w rig) {
		w.as("news", "http://a.test/")
		done := make(chan result, 1)
		go func() { done <- w.as("news", "http://b.test/", "Abide-Max-Wait", "2h") }()
		synctest.Wait()
		holds := w.Holds("", 10)
		if len(holds) != 1 || holds[0].Site != "client news" || holds[0].Client != "news" || !strings.Contains(holds[0].Limit, "1 request per 1h") {
			t.Errorf("%+v", holds)
		}
		w.Reload(fmt.Sprintf(twoClients, "{requests: 5, per: 1h}"))
		if a := <-done; a.Status != 200 || a.At > time.Second {
			t.Errorf("%d after %v", a.Status, a.At)
		}
		w.Reload(fmt.Sprintf(twoClients, "{requests: 1, per: 1h}"))
		go func() { done <- w.as("news", "http://b.test/", "Abide-Max-Wait", "3h") }()
		synctest.Wait()
		w.Reload("queue: {wait: 3h}\naccess: {clients: [{name: shop, secret: s}]}")
		if a := <-done; a.Status != 200 || a.At > time.Second {
			t.Errorf("without limits: %d after %v", a.Status, a.At)
		}
	})
}

func TestNoClientWaitsForTheLimitsOfAnotherThatAsksTheSame(t *testing.T) {
	yaml := fmt.Sprintf(twoClients, "{requests: 1, per: 1h}") + "sites: [{host: site.test, coalesce: true}]\n"
	run(t, echoing, yaml, func(w rig) {
		w.as("news", "http://site.test/")
		go w.as("news", "http://site.test/same", "Abide-Max-Wait", "2h")
		synctest.Wait()
		if a := w.as("shop", "http://site.test/same"); a.Status != 200 || a.At > time.Second {
			t.Errorf("%d after %v", a.Status, a.At)
		}
		elapse(2 * time.Hour)
	})
}

func TestATunnelIsARequestOfItsClient(t *testing.T) {
	run(t, echoing, fmt.Sprintf(twoClients, "{concurrency: 1}, {bytes: 100KB, per: 1h}"), func(w rig) {
		st := w.Current()
		now := dispatch.RequestOptions{Limited: true}
		ask := func(client string) (end func(bytes int), ok bool) {
			to := policy.Target{Scheme: "https", Host: "site.test", Port: 443}
			t, refused := w.OpenTunnel(context.Background(), &dispatch.Request{Snapshot: st, Client: st.Policy().Client(client), Options: now, Caller: dispatch.NoCaller{}, Target: to})
			return func(bytes int) { t.Read(bytes); t.Close(true) }, refused == nil
		}
		end, ok := ask("news")
		if _, second := ask("news"); !ok || second {
			t.Errorf("%v, and a second one %v", ok, second)
		}
		if other, ok := ask("shop"); !ok {
			t.Error("another client is refused")
		} else {
			other(0)
		}
		end(10_000)
		if end, ok = ask("news"); !ok {
			t.Error("refused after the end of the first")
		}
		end(200_000)
		if _, ok := ask("news"); ok {
			t.Error("allowed after more bytes than its limit")
		}
		w.idle("client news")
	})
}
