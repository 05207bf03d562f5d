package proxy

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shopOnly lets the client shop reach one other host, and news everything.
const shopOnly = "access: {clients: [{name: shop, secret: s, hosts: [other.test]}, {name: news, secret: n}]}"

// as is the line of a request that says who its client is.
func as(name, secret string) string {
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+secret)) + "\r\n"
}

// ask sends a request head to the proxy, and returns the answer and its body.
func (b *testProxy) ask(head string) (*http.Response, string) {
	b.t.Helper()
	conn := b.dial()
	io.WriteString(conn, head+"\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(b.t, err)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

func TestAForbiddenHostIsRefusedHoweverItIsSpelt(t *testing.T) {
	for _, mode := range []string{"intercept: all", "intercept: none"} {
		b := newTestProxy(t, shopOnly, mode)
		for _, spelling := range []string{"api.test", "API.test", "api.test.", "API.TEST.", "ａｐｉ.test", "api%2etest", "127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "2130706433", "other.test.evil.test", "evil-other.test", "münchen.test"} {
			for _, port := range []string{"80", "443"} {
				for _, head := range []string{
					fmt.Sprintf("GET http://%s:%s/ HTTP/1.1\r\nHost: other.test\r\n", spelling, port),
					fmt.Sprintf("CONNECT %s:%s HTTP/1.1\r\nHost: other.test:443\r\n", spelling, port),
				} {
					resp, body := b.ask(head + as("shop", "s") + "Abide-Client: news\r\n")
					if resp.StatusCode != 403 && resp.StatusCode != 400 || resp.StatusCode == 403 && !strings.Contains(body, `"type":"urn:abide:forbidden"`) {
						t.Errorf("%s: %q: %d %s", mode, head, resp.StatusCode, body)
					}
				}
			}
		}
		if n := b.dialed.Load(); n != 0 {
			t.Errorf("%s: %d connections to the site", mode, n)
		}
		resp, body := b.ask("GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n" + as("shop", "s"))
		if !strings.Contains(body, "its hosts do not list api.test:80; the operator can change hosts of that client in access.clients") || !strings.Contains(resp.Header.Get("Proxy-Status"), `details="forbidden"`) {
			t.Errorf("%v %s", resp.Header, body)
		}
		for _, c := range []struct {
			head   string
			status int
		}{
			{"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n" + as("news", "n"), 200},
			{"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n" + as("news", "s"), 407},
			{"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nAbide-Client: news\r\n", 407},
			{"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + as("shop", "s"), 403},
		} {
			if resp, body := b.ask(c.head); resp.StatusCode != c.status {
				t.Errorf("%q: %d %s", c.head, resp.StatusCode, body)
			}
		}
	}
}

func TestInsideOfAnAllowedCONNECTThereIsOneHost(t *testing.T) {
	b := newTestProxy(t, `access: {clients: [{name: shop, secret: s, hosts: [api.test]}]}`, "intercept: all")
	for _, protocol := range []string{"http/1.1", "h2"} {
		client := b.client(protocol == "h2")
		client.Transport.(*http.Transport).Proxy = http.ProxyURL(parseURL("http://shop:s@" + b.addr))
		for _, host := range []string{"", "other.test", "other.test:443"} {
			r, err := http.NewRequest("GET", "https://api.test/", nil)
			must(t, err)
			r.Host = host
			resp, err := client.Do(r)
			must(t, err)
			resp.Body.Close()
			if want := map[bool]int{true: 200, false: 421}[host == ""]; resp.StatusCode != want {
				t.Errorf("%s, Host %q: %d, want %d", protocol, host, resp.StatusCode, want)
			}
		}
	}
}

func TestAReloadTakesAHostFromAnOpenConnection(t *testing.T) {
	const clients = "access: {clients: [{name: shop, secret: s, hosts: [%s]}]}"
	b := newTestProxy(t, fmt.Sprintf(clients, "api.test"), "intercept: all")
	client := b.client(true)
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(parseURL("http://shop:s@" + b.addr))
	get := func() int {
		resp, err := client.Get("https://api.test/")
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := get(); status != 200 {
		t.Fatal(status)
	}
	must(t, b.server.Reload(b.policy("data: none\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nintercept: all\n"+fmt.Sprintf(clients, "other.test"))))
	if status := get(); status != 403 {
		t.Errorf("on the open connection: %d", status)
	}
}

func TestTraceHeadersGoWhereARuleSaysSo(t *testing.T) {
	for lines, want := range map[string]string{"": "||", "sites: [{host: other.test, trace: true}]": "||", "sites: [{host: api.test, trace: true}]": "00-1-2-01|v|k=v"} {
		b := newTestProxy(t, "intercept: all", lines)
		b.handle(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s|%s|%s", r.Header.Get("traceparent"), r.Header.Get("tracestate"), r.Header.Get("baggage"))
		})
		for _, a := range protocolClients {
			r, err := http.NewRequest("GET", a.base+"/", nil)
			must(t, err)
			r.Header = http.Header{"Traceparent": {"00-1-2-01"}, "Tracestate": {"v"}, "Baggage": {"k=v"}}
			resp, err := b.client(a.h2).Do(r)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			if body := string(text); body != want {
				t.Errorf("%q over %s: %q", lines, a.name, body)
			}
		}
	}
}

// TestWhatTheRulesRefuseIsInTheLogs: an operator who forbids hosts wants to see who asks for them. A client that asks
// again and again has one line.
func TestWhatTheRulesRefuseIsInTheLogs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	b := newTestProxy(t, shopOnly, "log: {access: "+file+"}")
	for range 3 {
		for _, head := range []string{"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n", "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n", "CONNECT 169.254.169.254:443 HTTP/1.1\r\nHost: x\r\n"} {
			name, secret := "shop", "s"
			if strings.Contains(head, "169.254") {
				name, secret = "news", "n"
			}
			if resp, _ := b.ask(head + as(name, secret)); resp.StatusCode != 403 {
				t.Errorf("%q: %d", head, resp.StatusCode)
			}
		}
	}
	b.stop()
	for _, want := range []string{`client=shop host="api.test:443" reason=forbidden`, `client=shop host="api.test:80" reason=forbidden`, `client=news host="169.254.169.254:443" reason=`} {
		if n := strings.Count(b.log.String(), want); n != 1 {
			t.Errorf("%s: %d times in %s", want, n, b.log)
		}
	}
	for _, site := range b.metrics.Sites() {
		if site.Name == host {
			t.Errorf("a host that is forbidden fills the tables: %+v", site)
		}
	}
	for _, r := range b.ended.list {
		if r.Site == host {
			t.Errorf("a host that is forbidden fills reports: %+v", r)
		}
	}
	lines, err := os.ReadFile(file)
	must(t, err)
	for _, want := range []string{`"client":"shop","priority":3,"method":"CONNECT","url":"https://api.test:443","site":"api.test","status":403`, `"method":"GET"`, `"client":"news","priority":3,"method":"CONNECT","url":"https://169.254.169.254:443"`} {
		if n := strings.Count(string(lines), want); n != 3 {
			t.Errorf("%s: %d times in %s", want, n, lines)
		}
	}
}
