package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/proxy/shard"
	"github.com/abide-proxy/abide/status"
)

// newShardedProxy is a proxy of two that divide URLs or hosts, with two paths and two hosts:
// the own one first.
func newShardedProxy(t *testing.T, by string) (b *testProxy, paths, hosts [2]string) {
	t.Helper()
	b = newTestProxy(t, fmt.Sprintf("shard: {index: 0, of: 2, by: %s}", by), "intercept: all")
	for i := range 2 {
		for n := 0; paths[i] == "" || hosts[i] == ""; n++ {
			path, name := fmt.Sprintf("/%d?q=%d", n, n), fmt.Sprintf("h%d.test", n)
			if key, err := shard.Key("http://"+host+path, shard.URL); err == nil && paths[i] == "" && shard.Owner(key, 2) == i {
				other, _ := shard.Key("https://"+host+path, shard.URL)
				if shard.Owner(other, 2) == i {
					paths[i] = path
				}
			}
			if key, err := shard.Key("http://"+name+"/", shard.Host); err == nil && hosts[i] == "" && shard.Owner(key, 2) == i {
				hosts[i] = name
			}
		}
	}
	return b, paths, hosts
}

func (b *testProxy) expectOtherShard(what string, resp *http.Response, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Errorf("%s: %v", what, err)
		return
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 421 || resp.Header.Get("Abide-Owner") != "1" || !strings.Contains(string(text), `"urn:abide:shard"`) {
		b.t.Errorf("%s: %d, owner %q: %s", what, resp.StatusCode, resp.Header.Get("Abide-Owner"), text)
	}
}

func TestURLsOfOtherCrawlersAreRefused(t *testing.T) {
	b, paths, _ := newShardedProxy(t, "url")
	for _, base := range []string{"http://" + host, "https://" + host} {
		for _, h2 := range []bool{false, true} {
			c := b.client(h2)
			before := b.served.Load()
			resp, err := c.Get(base + paths[1])
			b.expectOtherShard(base, resp, err)
			if b.served.Load() != before {
				t.Errorf("%s: the site was asked", base)
			}
			resp, err = c.Get(base + paths[0])
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode != 200 || b.served.Load() != before+1 {
				t.Errorf("%s: our own: %d", base, resp.StatusCode)
			}
			resp, err = c.Post(base+paths[1], "text/plain", strings.NewReader("some"))
			b.expectOtherShard(base+" POST", resp, err)
		}
	}
	for i, path := range paths {
		g, err := b.server.Permit(t.Context(), status.PermitAsk{URL: "http://" + host + path, Priority: -1})
		var denied *status.Denied
		switch {
		case i == 0 && err != nil, i == 1 && !errors.As(err, &denied):
			t.Errorf("a permit for %d: %v", i, err)
		case i == 0:
			must(t, b.server.SettlePermit(g.ID, status.PermitEnd{}))
		case denied.Status != 421 || denied.Reason != "shard" || denied.Limit != "crawler 1 of 2":
			t.Errorf("%+v", denied)
		}
	}
	if n := b.metricValue(`abide_own_refusals_total{reason="shard"}`); n != 9 {
		t.Errorf("counted %d times", n)
	}

	// Where URLs are divided, the owner of a tunnel is not known.
	resp, err := b.tunnel("h1.test:443")
	if err == nil && resp.StatusCode == 421 {
		t.Error("a tunnel was refused")
	}
	next := *b.server.Policy()
	next.Shard.Index = 1
	must(t, b.server.Reload(&next))
	resp, err = b.client(false).Get("http://" + host + paths[1])
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("after a reload it is ours: %d", resp.StatusCode)
	}
}

// tunnel sends a CONNECT.
func (b *testProxy) tunnel(to string) (*http.Response, error) {
	b.t.Helper()
	conn := b.dial()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	return http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: "CONNECT"})
}

func TestHostsOfOtherCrawlersAreRefused(t *testing.T) {
	b, _, hosts := newShardedProxy(t, "host")
	for _, port := range []string{"80", "443", "8443"} {
		resp, err := b.tunnel(hosts[1] + ":" + port)
		b.expectOtherShard("CONNECT to "+port, resp, err)
		if resp, err := b.tunnel(hosts[0] + ":" + port); err == nil && resp.StatusCode == 421 {
			t.Errorf("our own is refused at %s", port)
		}
	}
	resp, err := b.client(false).Get("http://" + hosts[1] + "/any")
	b.expectOtherShard("plain", resp, err)
}

// robots.txt belongs to another crawler, and abide fetches it nevertheless.
func TestRobotsAreReadForAHostOfSeveralCrawlers(t *testing.T) {
	key, err := shard.Key("http://"+host+"/robots.txt", shard.URL)
	must(t, err)
	index := 1 - shard.Owner(key, 2)
	b := newTestProxy(t, fmt.Sprintf("shard: {index: %d, of: 2}", index), "sites:\n  - {host: "+host+", robots: true}")
	asked := make(chan string, 100)
	b.handle(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	mine, robots := "", 0
	for n := 0; mine == ""; n++ {
		path := fmt.Sprintf("/%d", n)
		if key, _ := shard.Key("http://"+host+path, shard.URL); shard.Owner(key, 2) == index {
			mine = path
		}
	}
	resp, err := b.client(false).Get("http://" + host + mine)
	must(t, err)
	resp.Body.Close()
	for len(asked) > 0 {
		if <-asked == "/robots.txt" {
			robots++
		}
	}
	if resp.StatusCode != 200 || robots != 1 {
		t.Errorf("%d, robots.txt was read %d times", resp.StatusCode, robots)
	}
	resp, err = b.client(false).Get("http://" + host + "/robots.txt")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 421 {
		t.Errorf("a client's robots.txt: %d", resp.StatusCode)
	}
}
