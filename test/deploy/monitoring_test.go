//go:build linux

package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"gopkg.in/yaml.v3"
)

// monitoringPatience bounds waits for processes of these tests. A busy machine takes a while.
const monitoringPatience = 2 * time.Minute

// panels are the queries of the dashboard, by the titles of their panels.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, one := range dashboard.Panels {
		if one.Type == "row" {
			continue
		}
		if found[one.Title] != nil || len(one.Targets) == 0 {
			t.Errorf("the panel %q is there twice, or has no query", one.Title)
		}
		for _, target := range one.Targets {
			found[one.Title] = append(found[one.Title], target.Expr)
		}
	}
	return found
}

// alerts are the queries of the alert rules, by their names.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	readYAML(t, "../../deploy/alerts.yaml", &file)
	found := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			found[rule.Alert] = rule.Expr
		}
	}
	return found
}

func TestTheAlertRulesAreGoodAndEachHasATest(t *testing.T) {
	t.Log(output(t, program(t, "promtool", "check", "rules", "../../deploy/alerts.yaml")))
	t.Log(output(t, program(t, "promtool", "test", "rules", "../../deploy/alerts_test.yaml")))
	text, err := os.ReadFile("../../deploy/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range alerts(t) {
		for _, want := range []string{name + " fires", name + " is quiet"} {
			if !strings.Contains(string(text), "name: "+want+"\n") {
				t.Errorf("no test says that %s", want)
			}
		}
		if !strings.Contains(string(guide), "`"+name+"`") {
			t.Errorf("docs/operating.md does not say what to do about %s", name)
		}
	}
}

// metricNames finds the metrics of abide in a query, without the suffixes of histograms.
func metricNames(query string) (names []string) {
	for _, name := range regexp.MustCompile(`\babide_[a-z_]+`).FindAllString(query, -1) {
		names = append(names, strings.TrimSuffix(name, "_bucket"))
	}
	return names
}

func TestEveryMetricOfDashboardAndAlertsIsDocumented(t *testing.T) {
	text := guides(t)
	check := func(where, query string) {
		for _, name := range metricNames(query) {
			if !strings.Contains(text, name) {
				t.Errorf("%s has %s, which no guide has", where, name)
			}
		}
	}
	for name, query := range alerts(t) {
		check(name, query)
	}
	for title, queries := range panels(t) {
		check(title, strings.Join(queries, " "))
	}
}

// guides are the pages that say what metrics mean.
func guides(t *testing.T) (all string) {
	t.Helper()
	for _, name := range []string{"../../docs/operating.md", "../../docs/limits.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

// monitored is an abide that has crawled something, and a Prometheus that scrapes it.
type monitored struct {
	t          *testing.T
	proxy      *url.URL
	admin      string
	prometheus string
	client     *http.Client
}

const monitoredConfig = `
listen: 127.0.0.1:0
listen_open: off
admin: {listen: 127.0.0.1:0}
data: %q
egress:
  allow: [127.0.0.1]
  ports: any
  resolve: {"api.test:80": %[2]q, "slow.test:80": %[2]q, "bad.test:80": "127.0.0.1:1", "secret.test:443": %[3]q}
retry: {base: 1ms, max: 10ms, attempts: 1}
breaker: {failures: 3, pause: 10m}
pools:
  x: {tokens: [{label: alice, secret: token-of-alice}, {label: mallory, secret: token-of-mallory}]}
sites:
  - {host: api.test, pool: x, insecure: true, limits: [{requests: 1000, per: 1h}]}
  - {host: slow.test, limits: [{requests: 2, per: 1s}, {as: adaptive, min: 1/s, max: 5/s}]}
`

func startMonitored(t *testing.T) *monitored {
	t.Helper()
	refused := false
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.Header.Get("Authorization"), "mallory"):
			w.WriteHeader(http.StatusUnauthorized)
			return
		case r.Host == "api.test" && !refused:
			refused = true
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case r.Host == "api.test":
			w.Header().Set("X-RateLimit-Limit", "500")
			w.Header().Set("X-RateLimit-Remaining", "400")
			w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		}
		_, _ = io.WriteString(w, "well")
	}))
	t.Cleanup(site.Close)
	secret := httptest.NewTLSServer(site.Config.Handler)
	t.Cleanup(secret.Close)
	dir := t.TempDir()
	binary := filepath.Join(dir, "abide")
	output(t, exec.Command("go", "build", "-o", binary, "../../cmd/abide"))
	config := filepath.Join(dir, "abide.yaml")
	text := fmt.Sprintf(monitoredConfig, filepath.Join(dir, "data"), site.Listener.Addr(), secret.Listener.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &monitored{t: t}
	said := m.run(exec.Command(binary, "serve", "--config", config), `dashboard\s+http://(\S+)/`)
	proxy := regexp.MustCompile(`proxy\s+(http://\S+)`).FindStringSubmatch(said)
	m.admin = regexp.MustCompile(`dashboard\s+http://(\S+)/`).FindStringSubmatch(said)[1]
	m.proxy, _ = url.Parse(proxy[1])
	trust := secret.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.InsecureSkipVerify = true // the test's own server, which has a certificate for another name
	m.client = &http.Client{Timeout: monitoringPatience, Transport: &http.Transport{Proxy: http.ProxyURL(m.proxy), TLSClientConfig: trust}}
	t.Cleanup(m.client.CloseIdleConnections)
	return m
}

// run starts a process that ends with the test, and returns what it has printed when the
// pattern is in that.
func (m *monitored) run(command *exec.Cmd, pattern string) string {
	m.t.Helper()
	log, err := os.CreateTemp(m.t.TempDir(), "log")
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt) // it may have ended
		_ = command.Wait()
	})
	wanted := regexp.MustCompile(pattern)
	for until := time.Now().Add(monitoringPatience); ; <-time.After(20 * time.Millisecond) {
		text, err := os.ReadFile(log.Name())
		switch {
		case err != nil:
			m.t.Fatal(err)
		case wanted.Match(text):
			return string(text)
		case time.Now().After(until):
			m.t.Fatalf("%s does not say %s:\n%s", command, pattern, text)
		}
	}
}

// crawl has requests that wait, are refused, fail, and pass unread. It ends with ctx.
func (m *monitored) crawl(ctx context.Context) {
	for ctx.Err() == nil {
		for _, at := range []string{"http://api.test/a", "http://slow.test/", "http://slow.test/", "http://bad.test/", "https://secret.test/"} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
			if err != nil {
				continue
			}
			request.Header.Set("Abide-Client", "news")
			request.Close = strings.HasPrefix(at, "https")
			answer, err := m.client.Do(request)
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}
}

// scrape starts a Prometheus that scrapes abide each second, with the alert rules.
func (m *monitored) scrape() {
	m.t.Helper()
	dir := m.t.TempDir()
	rules, err := filepath.Abs("../../deploy/alerts.yaml")
	if err != nil {
		m.t.Fatal(err)
	}
	config, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{rules},
		"scrape_configs": []any{map[string]any{"job_name": "abide", "static_configs": []any{map[string]any{"targets": []string{m.admin}}}}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		m.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	m.prometheus = l.Addr().String()
	l.Close()
	m.run(program(m.t, "prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+m.prometheus), "Server is ready")
}

// query is how many series a query has.
func (m *monitored) query(query string) (series int, err error) {
	answer, err := http.Get("http://" + m.prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var response struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.NewDecoder(answer.Body).Decode(&response); err != nil {
		return 0, err
	}
	if response.Status != "success" {
		return 0, fmt.Errorf("%s: %s", query, response.Error)
	}
	return len(response.Data.Result), nil
}

func TestEveryPanelHasDataFromAPrometheusThatScrapesAbide(t *testing.T) {
	m := startMonitored(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.crawl(ctx) }()
	defer func() { stop(); <-done }()
	m.scrape()
	fill := strings.NewReplacer("$instance", ".*", "$site", ".*", "$__rate_interval", "10s")
	missing := map[string]string{}
	for title, queries := range panels(t) {
		for i, one := range queries {
			missing[fmt.Sprint(title, " ", i)] = fill.Replace(one)
		}
	}
	for until := time.Now().Add(monitoringPatience); len(missing) > 0 && time.Now().Before(until); <-time.After(200 * time.Millisecond) {
		for title, query := range missing {
			n, err := m.query(query)
			if err != nil {
				t.Fatalf("%s: %v", title, err)
			}
			if n > 0 {
				delete(missing, title)
			}
		}
	}
	for title, query := range missing {
		t.Errorf("%s has no data: %s", title, query)
	}
	m.lints()
}

// lints has promlint look at all metrics. All must be documented, and those of the alerts among
// them.
func (m *monitored) lints() {
	answer, err := http.Get("http://" + m.admin + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(string(text))).Lint()
	if err != nil || len(problems) > 0 {
		m.t.Errorf("%v %v", err, problems)
	}
	documented := guides(m.t)
	for _, one := range regexp.MustCompile(`(?m)^# TYPE (abide_\w+) `).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(documented, one[1]) {
			m.t.Errorf("abide exports %s, which no guide has", one[1])
		}
	}
	inJobs := []string{"abide_job_units", "abide_job_round_lag_seconds"} // of processes that run jobs
	for name, query := range alerts(m.t) {
		for _, metric := range metricNames(query) {
			if !slices.Contains(inJobs, metric) && !strings.Contains(string(text), "# TYPE "+metric+" ") {
				m.t.Errorf("%s has %s, which abide does not export", name, metric)
			}
		}
	}
}
