//go:build unix

package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/internal/redact"
)

// wires are ways to write a secret in a header.
func wires(secret string) []string {
	percent, all, unicode, pairs := "", "", "", ""
	for i := range len(secret) {
		all += fmt.Sprintf("%%%02X", secret[i])
		unicode += fmt.Sprintf(`\u%04x`, secret[i])
		pairs += `\` + secret[i:i+1]
		if i%3 == 0 {
			percent += fmt.Sprintf("%%%02x", secret[i])
		} else {
			percent += secret[i : i+1]
		}
	}
	list := []string{
		secret, strings.ToUpper(hex.EncodeToString([]byte(secret))), hex.EncodeToString([]byte(secret)),
		percent, all, unicode, pairs, url.QueryEscape(all), url.QueryEscape(secret), strings.ReplaceAll(secret, "/", `\/`),
	}
	for _, before := range []string{"", "u", "us", "user:", "Bearer "} {
		for _, after := range []string{"", "a", "bc"} {
			text := []byte(before + secret + after)
			std := base64.StdEncoding.EncodeToString(text)
			list = append(list, std, base64.URLEncoding.EncodeToString(text), base64.RawStdEncoding.EncodeToString(text),
				base64.RawURLEncoding.EncodeToString(text), url.QueryEscape(std))
		}
	}
	return list
}

// repeating is a site that repeats a secret wherever an answer has room for it: of the
// encoding that the request's path names. A route has few of them, since abide tells only so
// many limits of one apart.
type repeating struct {
	forms []string
}

func (s *repeating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n int
	_, number, _ := strings.Cut(r.URL.Path[1:], "/")
	if _, err := fmt.Sscan(number, &n); err != nil {
		http.NotFound(w, r)
		return
	}
	form := s.forms[n]
	quoted := strings.ReplaceAll(strings.ReplaceAll(form, `\`, `\\`), `"`, `\"`)
	h := w.Header()
	h.Set("Link", "</early?k="+form+">; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	h.Set("Location", "https://other.test/?next=%2Flogin&k="+form)
	h.Add("Set-Cookie", "who="+form+"; Path=/")
	h.Add("WWW-Authenticate", `Bearer error="invalid_token", error_description="the token `+quoted+` is none"`)
	h.Set("X-Debug", "authorization: "+form)
	h.Set("X-RateLimit-Limit", "5000")
	h.Set("X-RateLimit-Remaining", fmt.Sprint(4000-n))
	h.Set("X-RateLimit-Reset", "3000")
	h.Set("X-RateLimit-Resource", form)
	h.Set("RateLimit", `"`+quoted+`";r=8000;t=3000`)
	h.Set("RateLimit-Policy", `"`+quoted+`";q=9000;w=3600`)
	if !strings.ContainsAny(form, `\/=%+ `) {
		h.Set("X-RateLimit-Limit-"+form, "7000")
		h.Set("X-RateLimit-Remaining-"+form, "6000")
		h.Set("X-RateLimit-Reset-"+form, "3000")
	}
	h.Set("Trailer", "X-Sum")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":{"code":404,"message":"no such user: `+quoted+`"}}`)
	h.Set("X-Sum", "sum of "+form)
}

// all asks for every form, and gives the headers of all answers, early ones and trailers
// included, and the last body.
func (s *repeating) all(t *testing.T, client *http.Client, base string, header http.Header, query string) (headers, body string) {
	t.Helper()
	var got strings.Builder
	early := 0
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		early++
		return http.Header(h).Write(&got)
	}}
	for n := range s.forms {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", fmt.Sprintf("%s/route%c/%d%s", base, 'a'+n/8, n, query), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range header {
			r.Header[name] = values
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 404 || len(answer.Trailer) != 1 {
			t.Fatalf("%d %v, trailers %v: %s", answer.StatusCode, err, answer.Trailer, text)
		}
		_ = answer.Header.Write(&got)
		_ = answer.Trailer.Write(&got)
		body = string(text)
	}
	if early != len(s.forms) {
		t.Errorf("%d early answers", early)
	}
	return got.String(), body
}

// shows is all that abide says and writes, by where it stands. It stops abide.
func (d *daemon) shows(t *testing.T, data string, sites ...string) map[string]string {
	t.Helper()
	shown := map[string]string{}
	paths := []string{"/", "/metrics", "/readyz", "/api/v1/status", "/api/v1/sites", "/api/v1/tokens", "/api/v1/holds", "/api/v1/bandwidth"}
	for _, site := range sites {
		paths = append(paths, "/api/v1/sites/"+site, "/api/v1/explain?url=http://"+site+"/routea/1", "/api/v1/forecast?requests=10&site="+site)
	}
	for _, path := range paths {
		status, text := d.ask(path)
		if status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
		shown[path] = text
	}
	shown["abide status"], _ = shell(d.cmd.Dir, "abide status; abide status --json; abide sites; abide explain http://"+sites[0]+"/routea/1")
	d.signal(os.Interrupt)
	if got := d.status(); got != 0 {
		t.Errorf("it ended with %d", got)
	}
	shown["standard output"], shown["log"] = d.out.String(), d.log.String()
	files, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			shown[filepath.Base(file)] = string(text)
		}
	}
	return shown
}

// without checks that a text has a secret in none of its forms.
func without(t *testing.T, where, text, secret string, forms []string) {
	t.Helper()
	for _, form := range forms {
		if n := strings.Index(strings.ToLower(text), strings.ToLower(form)); n >= 0 {
			t.Errorf("%s has it as %s: …%q", where, form, text[max(n-60, 0):min(n+len(form)+20, len(text))])
			return
		}
	}
	// Lines keep the work small; a secret has none of their ends.
	for line := range strings.SplitSeq(text, "\n") {
		if _, found := redact.New(secret).Text(line, ""); found {
			t.Errorf("%s has it in %.300q", where, line)
			return
		}
	}
}

func TestATokenThatASiteRepeatsIsShownNowhere(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ put, secret, user string }{
		{`"Authorization: Bearer {token}"`, "tok_4eC39HqLyjWDarjtT1zdp7dc", ""},
		{`"Authorization: Bearer {token}"`, "a+b/c?d&e==f~0123456789", ""},
		{`"query: api_key={token}"`, "k3y-With.Dots_and~more/16", ""},
		{`"basic: {token}:x"`, "sk_live_0123456789abcdef", ""},
	} {
		t.Run(one.put+" "+one.secret, func(t *testing.T) {
			s := &repeating{forms: wires(one.secret)}
			site := httptest.NewServer(s)
			defer site.Close()
			dir := t.TempDir()
			write(t, dir+"/tokens.txt", one.secret+"\n")
			write(t, dir+"/abide.yaml", fmt.Sprintf(`
data: data
log: {level: debug}
egress: {resolve: {"api.test:80": %q}}
pools: {p: {file: tokens.txt, put: %s}}
sites: [{host: api.test, pool: p, insecure: true}]
`, site.Listener.Addr(), one.put))
			d := serveIn(t, dir, nil)
			headers, body := s.all(t, d.client(nil), "http://api.test", nil, "")
			without(t, "the answer", headers, one.secret, s.forms)
			if strings.Count(headers, "{token}") < 6*len(s.forms) {
				t.Errorf("it is hidden %d times in %d answers", strings.Count(headers, "{token}"), len(s.forms))
			}
			if want := s.forms[len(s.forms)-1]; !strings.Contains(body, want) {
				t.Errorf("the body has changed: %s", body)
			}
			for where, text := range d.shows(t, dir+"/data", "api.test") {
				without(t, where, text, one.secret, s.forms)
			}
		})
	}
}

func TestAClientsCredentialIsNoName(t *testing.T) {
	t.Parallel()
	secrets := []string{"own-Secret/4eC39HqLyjWDarjtT1", "Another_one.0123456789abcdef"}
	for _, one := range []struct {
		name string
		put  func(h http.Header, secret string) (query string)
	}{
		{"bearer", func(h http.Header, s string) string { h.Set("Authorization", "Bearer "+s); return "" }},
		{"basic", func(h http.Header, s string) string {
			h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+s)))
			return ""
		}},
		{"header", func(h http.Header, s string) string { h.Set("X-Api-Key", s); return "" }},
		{"cookie", func(h http.Header, s string) string { h.Set("Cookie", "lang=en; sid="+s); return "" }},
		{"query", func(h http.Header, s string) string { return "?q=1&api_key=" + url.QueryEscape(s) }},
	} {
		t.Run(one.name, func(t *testing.T) {
			dir := t.TempDir()
			sites := make([]*repeating, len(secrets))
			resolve := ""
			for i, secret := range secrets {
				sites[i] = &repeating{forms: wires(secret)}
				site := httptest.NewServer(sites[i])
				defer site.Close()
				resolve += fmt.Sprintf("    \"own%d.test:80\": %q\n", i, site.Listener.Addr())
			}
			write(t, dir+"/abide.yaml", "data: data\nlog: {level: debug}\negress:\n  resolve:\n"+resolve)
			d := serveIn(t, dir, nil)
			for i, secret := range secrets {
				h := http.Header{}
				query := one.put(h, secret)
				headers, _ := sites[i].all(t, d.client(nil), fmt.Sprintf("http://own%d.test", i), h, query)
				if !strings.Contains(headers, "X-Debug: authorization: "+secret) {
					t.Error("its own answer does not show it to the client")
				}
			}
			for where, text := range d.shows(t, dir+"/data", "own0.test", "own1.test") {
				for i, secret := range secrets {
					without(t, where, text, secret, sites[i].forms)
				}
			}
		})
	}
}

// TestLimitsThatAreNamedAfterCredentialsAreToldApart: a site that names a bucket after
// the key of each client has a limit for each.
func TestLimitsThatAreNamedAfterCredentialsAreToldApart(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-RateLimit-Limit", "50")
		h.Set("X-RateLimit-Remaining", "40")
		if r.Header.Get("X-Api-Key") == "the-key-of-ann" {
			h.Set("X-RateLimit-Remaining", "0")
		}
		h.Set("X-RateLimit-Reset", "3000")
		h.Set("X-RateLimit-Bucket", "key-"+r.Header.Get("X-Api-Key"))
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, dir+"/abide.yaml", fmt.Sprintf("data: data\negress: {resolve: {\"api.test:80\": %q}}\n", site.Listener.Addr()))
	d := serveIn(t, dir, nil)
	ask := func(path, key string) int {
		r, err := http.NewRequest("GET", "http://api.test/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := d.client(nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	ask("bobs", "the-key-of-bob")
	ask("anns", "the-key-of-ann")
	_, metrics := d.ask("/metrics")
	names := map[string]bool{}
	for line := range strings.SplitSeq(metrics, "\n") {
		if rest, ok := strings.CutPrefix(line, `abide_limit_remaining{limit="`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			names[name] = strings.Contains(name, "key-{")
		}
	}
	delete(names, "32 in flight")
	if len(names) != 2 || slices.Contains(slices.Collect(maps.Values(names)), false) || strings.Contains(metrics, "the-key") {
		t.Errorf("the limits are %v", names)
	}
}
