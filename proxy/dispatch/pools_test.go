package dispatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/tokens"
)

// asking reads the tokens of each pool from a server, as a source that is a server does: the
// secret is the body of the answer.
func asking(url string) func(context.Context, *policy.Policy, tokens.Surroundings) (map[string]*tokens.Loaded, error) {
	return func(ctx context.Context, p *policy.Policy, at tokens.Surroundings) (map[string]*tokens.Loaded, error) {
		return ask(ctx, url, p, at)
	}
}

func ask(ctx context.Context, url string, p *policy.Policy, at tokens.Surroundings) (map[string]*tokens.Loaded, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := at.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	secret, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	answered := *p
	answered.Pools = slices.Clone(p.Pools)
	for i := range answered.Pools {
		answered.Pools[i].Env = ""
		answered.Pools[i].Tokens = []policy.Token{{Label: string(secret[:5]), Secret: policy.NewSecret(string(secret))}}
	}
	return tokens.LoadAll(ctx, &answered, at)
}

// unstarted is a configuration without a snapshot, whose pools are asked of the server with a URL.
func unstarted(t *testing.T, url string) *configuration {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	d := newDispatcher(t, "")
	c := &configuration{
		name: newPseudonym(), gate: queue.NewGateWithClock(clock.System, queue.Bounds{}, d.config.hooks), hooks: d.config.hooks,
		parts: d.config.parts, overrides: d.config.overrides, reloaded: func() {}, activity: sitelog.New(log), clock: clock.System, log: log,
	}
	c.pools = &poolLoader{read: asking(url), transport: credentialTransport(func() *outbound { return c.current.Load().outbound }), persistence: d.storage.persistence, clock: d.clock, log: log}
	return c
}

// withPool is a configuration with a pool p, and egress rules.
func withPool(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\npools: {p: {env: T}}\nsites: [{host: api.test, pool: p}]\n" + yaml)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func labels(c *configuration) string {
	var all []string
	for _, one := range c.current.Load().Pool("p").Set().Tokens() {
		all = append(all, one.Label())
	}
	return strings.Join(all, " ")
}

func TestTheEndStopsAReloadThatWaitsForTokens(t *testing.T) {
	var asked atomic.Int32
	second := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			_, _ = io.WriteString(w, "first-secret-of-the-server")
			return
		}
		close(second)
		<-r.Context().Done()
	}))
	defer server.Close()
	resolve := "egress: {resolve: {\"vault.test:80\": \"" + server.Listener.Addr().String() + "\"}}\n"
	c := unstarted(t, "http://vault.test/secret")
	if err := c.start(withPool(t, resolve)); err != nil {
		t.Fatal(err)
	}
	reloaded := make(chan error)
	go func() { reloaded <- c.reload(withPool(t, resolve)) }()
	<-second
	c.close()
	if err := <-reloaded; err == nil || labels(c) != "first" {
		t.Errorf("a reload at the end: %v, %s", err, labels(c))
	}
	if err := c.reload(withPool(t, resolve)); !errors.Is(err, ErrClosed) {
		t.Errorf("a reload after the end: %v", err)
	}
}

func TestASourceOfTokensAsksItsServerByTheEgressRules(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, []string{"first", "later", "third"}[asked.Add(1)-1]+"-secret-of-the-server")
	}))
	defer server.Close()
	resolve := "egress: {resolve: {\"vault.test:80\": \"" + server.Listener.Addr().String() + "\"}}\n"

	c := unstarted(t, "http://vault.test/secret")
	if err := c.start(withPool(t, resolve)); err != nil || labels(c) != "first" {
		t.Fatalf("at the first load: %v, %d requests", err, asked.Load())
	}
	defer c.close()
	if err := c.reload(withPool(t, resolve)); err != nil || labels(c) != "later" {
		t.Errorf("at a reload: %v, %s", err, labels(c))
	}
	// The rules are those of the configuration that is loaded, not of the configuration in force.
	before := c.current.Load()
	if err := c.reload(withPool(t, "egress: {resolve: {\"vault.test:80\": \"169.254.169.254:80\"}}")); upstream.KindOf(err) != upstream.Forbidden || c.current.Load() != before {
		t.Errorf("the metadata service was asked: %v", err)
	}
	if err := c.reload(withPool(t, resolve+"timeouts: {connect: 7s}\n")); err != nil || labels(c) != "third" || c.current.Load().outbound == before.outbound {
		t.Errorf("with another outbound: %v, %s", err, labels(c))
	}
}

func TestASourceOfTokensDoesNotReachWhatTheEgressRulesForbid(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	defer server.Close()
	c := unstarted(t, server.URL)
	// A listener on all addresses has clients on other machines: loopback is not theirs.
	if err := c.start(withPool(t, "listen: \":3128\"\n")); upstream.KindOf(err) != upstream.Forbidden || c.current.Load() != nil {
		t.Errorf("%v", err)
	}
	c.retired.Wait()
}
