package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// permitting is a process that gives permits: a.test has them, the path of b.test says
// what is wrong.
type permitting struct {
	mu      sync.Mutex
	asked   []status.PermitAsk
	open    map[string]bool
	ends    []string
	waiting chan struct{} // one for each that waits
	gone    chan struct{} // one for each that gave up
}

func (p *permitting) into(_ *policy.Policy, o *given) {
	p.open, p.waiting, p.gone = map[string]bool{}, make(chan struct{}, mostPermits), make(chan struct{}, mostPermits)
	o.Permit, o.Settle = p.permit, p.settle
}

func (p *permitting) permit(ctx context.Context, a status.PermitAsk) (status.Grant, error) {
	if a.Queued != nil {
		a.Queued()
		a.Queued = nil
	}
	p.mu.Lock()
	p.asked = append(p.asked, a)
	n := len(p.asked)
	p.mu.Unlock()
	switch _, path, _ := strings.Cut(a.URL, ".test/"); path {
	case "full":
		return status.Grant{}, &status.Denied{Reason: "wait", Title: "no room", Detail: "wait", Limit: "10 per 1m", Status: 429, RetryAt: time.Now().Add(12*time.Second + 300*time.Millisecond)}
	case "odd":
		return status.Grant{}, &status.Denied{Title: "odd", Status: 200}
	case "bad":
		return status.Grant{}, errors.New("the URL\nis none")
	case "panic":
		panic("secret " + token)
	case "wait":
		p.waiting <- struct{}{}
		<-ctx.Done()
		p.gone <- struct{}{}
		return status.Grant{}, ctx.Err()
	case "late": // it is granted just when nobody is there any more
		p.waiting <- struct{}{}
		<-ctx.Done()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := status.Grant{ID: fmt.Sprintf("id%d", n), Site: "a.test", Token: "news-1", Waited: 1500 * time.Millisecond, Expires: time.Unix(1_800_000_000, 0)}
	p.open[g.ID] = true
	return g, nil
}

func (p *permitting) settle(id string, e status.PermitEnd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "broken" {
		return errors.New("it is broken")
	}
	if !p.open[id] {
		return status.Missing("there is no such permit")
	}
	delete(p.open, id)
	p.ends = append(p.ends, fmt.Sprint(id, e))
	if e.Unsent {
		p.gone <- struct{}{}
	}
	return nil
}

func TestAPermitIsGrantedOrRefused(t *testing.T) {
	p := &permitting{}
	b := newBed(t, p.into)
	ask := func(body string) response { return b.ask(http.MethodPost, "/api/v1/permits", body, asJSON) }
	r := ask(`{"url":"https://a.test/x?secret=1","method":"HEAD","client":"news","bytes":1000,"cost":5,"wait":"90s","priority":0}`)
	if want := `{"id":"id1","granted":true,"site":"a.test","token":"news-1","waited":1.5,"expires":"2027-01-15T08:00:00Z","status":200}` + "\n"; r.StatusCode != 200 || r.body != want {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	ask(`{"url":"https://a.test/","wait":2.5}`)
	ask(`{"url":"https://a.test/","wait":null,"priority":7}`)
	want := []status.PermitAsk{
		{URL: "https://a.test/x?secret=1", Method: "HEAD", Client: "news", Bytes: 1000, Cost: 5, Wait: 90 * time.Second},
		{URL: "https://a.test/", Method: "GET", Wait: 2500 * time.Millisecond, Priority: -1},
		{URL: "https://a.test/", Method: "GET", Priority: 7},
	}
	if fmt.Sprint(p.asked) != fmt.Sprint(want) {
		t.Errorf("%+v", p.asked)
	}
	r = ask(`{"url":"https://b.test/full"}`)
	var said decision
	if err := json.Unmarshal([]byte(r.body), &said); err != nil || r.StatusCode != 429 || r.Header.Get("Retry-After") != "13" || r.Header.Get("Content-Type") != "application/problem+json" ||
		*said.Retry > 12.3 || *said.Retry < 11 || said.Limit != "10 per 1m" || said.Title != "no room" || !strings.HasPrefix(r.body, `{"granted":false,"title":`) {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, r.body)
	}
	if r = ask(`{"url":"https://b.test/odd"}`); r.StatusCode != 503 || r.Header.Get("Retry-After") != "" {
		t.Errorf("a status that is none: %d %s", r.StatusCode, r.body)
	}
	if r = ask(`{"url":"https://b.test/bad"}`); r.StatusCode != 400 || !strings.Contains(r.body, "the URL is none") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r = ask(`{"url":"https://b.test/panic"}`); r.StatusCode != 500 || strings.Contains(r.body, token) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// wrongAsks are asks that are none, and what is wrong with each.
var wrongAsks = map[string]string{
	`{}`: "url is missing", ``: "not the JSON object", `null`: "url is missing", `7`: "not the JSON object", `{"url":1}`: "not the JSON object",
	`{"url":"x","site":"y"}`: "unknown field", `{"url":"x","priority":8}`: "priority must be", `{"url":"x","priority":-1}`: "priority must be", `{"url":"x","priority":1.5}`: "not the JSON object",
	`{"url":"x","wait":"1"}`: "wait needs", `{"url":"x","wait":true}`: "wait needs", `{"url":"x","wait":-1}`: "wait must be", `{"url":"x","wait":601}`: "wait must be",
	`{"url":"x","wait":1e300}`: "wait must be", `{"url":"x","wait":"11m"}`: "wait must be", `{"url":"x","bytes":-1}`: "bytes must be", `{"url":"x","bytes":1e15}`: "not the JSON object",
	`{"url":"x","bytes":2000000000000000}`: "bytes must be", `{"url":"x","cost":-1}`: "cost must be", `{"url":"x","method":"G T"}`: "method is none",
	`{"url":"` + strings.Repeat("x", maxURL) + `y"}`: "too long", `{"url":"x","client":"` + strings.Repeat("x", 65) + `"}`: "too long", `{"url":"x"}{}`: "goes on after",
}

func TestWhatIsNoAskIsRefused(t *testing.T) {
	p := &permitting{}
	b := newBed(t, p.into)
	for body, want := range wrongAsks {
		r := b.ask(http.MethodPost, "/api/v1/permits", body, asJSON)
		if r.StatusCode != 400 || !strings.Contains(r.body, want) || !json.Valid([]byte(r.body)) {
			t.Errorf("%.100s: %d %s, want %s", body, r.StatusCode, r.body, want)
		}
		if body == "" || strings.HasSuffix(body, "}{}") {
			continue // cannot stand in a list
		}
		r = b.ask(http.MethodPost, "/api/v1/permits", "["+body+`,{"url":"https://a.test/"}]`, asJSON)
		var said []decision
		if err := json.Unmarshal([]byte(r.body), &said); err != nil || r.StatusCode != 200 || len(said) != 2 || said[0].Status != 400 || !strings.Contains(said[0].Detail, want) || !said[1].Granted {
			t.Errorf("[%.100s]: %d %s", body, r.StatusCode, r.body)
		}
	}
	for _, body := range []string{"[", "[}", `[{"url":"x"}]x`, "[" + strings.Repeat(`{},`, mostPermits) + `{}]`} {
		if r := b.ask(http.MethodPost, "/api/v1/permits", body, asJSON); r.StatusCode != 400 || !strings.Contains(r.body, "list") {
			t.Errorf("%.20s: %d %s", body, r.StatusCode, r.body)
		}
	}
	if r := b.ask(http.MethodPost, "/api/v1/permits", " [] ", asJSON); r.StatusCode != 200 || r.body != "[]\n" {
		t.Errorf("nothing: %d %s", r.StatusCode, r.body)
	}
	if r := b.ask(http.MethodPost, "/api/v1/permits", `url=https://a.test/`); r.StatusCode != 415 {
		t.Errorf("no JSON: %d %s", r.StatusCode, r.body)
	}
}

func TestAListOfPermitsIsAnsweredInItsOrder(t *testing.T) {
	p := &permitting{}
	b := newBed(t, p.into)
	var asks []string
	for i := range mostPermits {
		asks = append(asks, `{"url":"https://`+[]string{"a.test/", "b.test/full", "b.test/panic"}[i%3]+`"}`)
	}
	r := b.ask(http.MethodPost, "/api/v1/permits", "["+strings.Join(asks, ",")+"]", asJSON)
	var said []decision
	if err := json.Unmarshal([]byte(r.body), &said); err != nil || r.StatusCode != 200 || len(said) != mostPermits {
		t.Fatalf("%d %v %.200s", r.StatusCode, err, r.body)
	}
	ids := map[string]bool{}
	for i, one := range said {
		if one.Status != []int{200, 429, 500}[i%3] || one.Granted != (i%3 == 0) || one.Granted && ids[one.ID] || i%3 == 1 && *one.Retry < 10 {
			t.Fatalf("%d: %+v", i, one)
		}
		ids[one.ID] = true
	}
}

func TestWhoeverGoesGivesItsPlaceAndItsPermitsUp(t *testing.T) {
	for _, body := range []string{
		`{"url":"https://a.test/wait","wait":"10m"}`, `[{"url":"https://a.test/wait","wait":"10m"}]`,
		`{"url":"https://a.test/late","wait":"10m"}`, `[{"url":"https://a.test/"},{"url":"https://a.test/late","wait":"10m"}]`,
	} {
		p := &permitting{}
		b := newBed(t, p.into)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.address+"/api/v1/permits", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			answer, err := b.client.Do(r)
			if err == nil {
				answer.Body.Close()
			}
			left <- err
		}()
		<-p.waiting
		leave()
		for range strings.Count(body, "url") {
			<-p.gone
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", body, err)
		}
		p.mu.Lock()
		if len(p.open) != 0 {
			t.Errorf("%s: %v are open", body, p.open)
		}
		p.mu.Unlock()
	}
}

func TestPermitsAreSettledOnce(t *testing.T) {
	p := &permitting{}
	b := newBed(t, p.into)
	take := func() string {
		t.Helper()
		var said decision
		if err := json.Unmarshal([]byte(b.ask(http.MethodPost, "/api/v1/permits", `{"url":"https://a.test/"}`, asJSON).body), &said); err != nil || said.ID == "" {
			t.Fatalf("%v %+v", err, said)
		}
		return said.ID
	}
	for _, one := range []struct{ method, body, want string }{
		{"POST", `{"bytes":12,"status":429,"headers":[["Retry-After","7"],["X","a"],["X","b"]]}`, "{12 429 [[Retry-After 7] [X a] [X b]] false}"},
		{"POST", `{"headers":{"X":["a","b"]}}`, "{0 0 [[X a] [X b]] false}"},
		{"POST", `{"status":200,"headers":{"X":"a"}}`, "{0 200 [[X a]] false}"},
		{"POST", `{"unsent":true,"headers":null}`, "{0 0 [] true}"},
		{"POST", ``, "{0 0 [] false}"},
		{"DELETE", ``, "{0 0 [] true}"},
	} {
		id := take()
		path := "/api/v1/permits/" + id
		r := b.ask(one.method, path, one.body, asJSON)
		if r.StatusCode != 200 || r.body != `{"id":"`+id+`","settled":true,"status":200}`+"\n" || p.ends[len(p.ends)-1] != id+one.want {
			t.Errorf("%s: %d %s, %s", one.body, r.StatusCode, r.body, p.ends[len(p.ends)-1])
		}
		if r := b.ask(one.method, path, one.body, asJSON); r.StatusCode != 404 || !strings.Contains(r.body, "no such permit") {
			t.Errorf("%s again: %d %s", one.body, r.StatusCode, r.body)
		}
	}
	id := take()
	for _, body := range []string{
		`{"status":99}`, `{"status":600}`, `{"bytes":-1}`, `{"headers":"x"}`, `{"headers":{"x":1}}`, `{"headers":[1]}`, `{"id":"other"}`, `{"x":1}`, `[]`, `{`,
	} {
		if r := b.ask("POST", "/api/v1/permits/"+id, body, asJSON); r.StatusCode != 400 || !p.open[id] {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	if r := b.ask("POST", "/api/v1/permits/broken", "", asJSON); r.StatusCode != 400 || !strings.Contains(r.body, "broken") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	other := take()
	r := b.ask("POST", "/api/v1/permits/settle", `[{"id":"`+id+`","status":200},{"id":"`+id+`"},{"status":200},{"id":"`+other+`","unsent":true},{"id":"x","status":1}]`, asJSON)
	want := `[{"id":"` + id + `","settled":true,"status":200},{"id":"` + id + `","settled":false,"status":404,"detail":"there is no such permit"},` +
		`{"id":"","settled":false,"status":400,"detail":"id is missing"},{"id":"` + other + `","settled":true,"status":200},{"id":"x","settled":false,"status":400,"detail":"status must be one of HTTP, or 0 where there was no answer"}]` + "\n"
	if r.StatusCode != 200 || r.body != want {
		t.Errorf("%d %s\nwant %s", r.StatusCode, r.body, want)
	}
	for _, body := range []string{"", "{}", "null", "[", "[" + strings.Repeat(`{},`, mostPermits) + `{}]`} {
		if r := b.ask("POST", "/api/v1/permits/settle", body, asJSON); r.StatusCode != 400 {
			t.Errorf("%.10s: %d %s", body, r.StatusCode, r.body)
		}
	}
}

func FuzzPermitsReadAnything(f *testing.F) {
	for body := range wrongAsks {
		f.Add([]byte(body))
	}
	f.Add([]byte(`{"url":"https://a.test/","wait":"30s","priority":3}`))
	f.Add([]byte(`{"id":"x","status":200,"headers":{"A":["b"],"C":"d"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := readAsk(body); err == nil && (a.URL == "" || a.Wait < 0 || a.Wait > mostWait || a.Bytes < 0 || a.Cost < 0 || a.Priority < -1 || a.Priority > 7) {
			t.Errorf("%q is %+v", body, a)
		}
		if _, e, err := readEnd(body); err == nil && (e.Bytes < 0 || e.Status != 0 && (e.Status < 100 || e.Status > 599)) {
			t.Errorf("%q is %+v", body, e)
		}
	})
}

// BenchmarkAPermitOverLoopback is what a crawler waits for beyond the decision itself.
func BenchmarkAPermitOverLoopback(b *testing.B) {
	p := policy.Defaults()
	p.Admin.Token = policy.NewSecret(token)
	server := Server(New((&given{
		Permit: func(context.Context, status.PermitAsk) (status.Grant, error) {
			return status.Grant{ID: "x", Site: "a.test"}, nil
		},
		Options: Options{Policy: func() *policy.Policy { return p }, Metrics: metrics.New(10)},
	}).options()))
	listener := listen(b)
	go server.Serve(listener)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, one := range []struct {
		name string
		body string
	}{
		{"one", `{"url":"https://a.test/path"}`},
		{"hundred", "[" + strings.Repeat(`{"url":"https://a.test/path"},`, 99) + `{"url":"https://a.test/path"}]`},
	} {
		b.Run(one.name, func(b *testing.B) {
			for b.Loop() {
				r, _ := http.NewRequest(http.MethodPost, "http://"+listener.Addr().String()+"/api/v1/permits", strings.NewReader(one.body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+token)
				answer, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				drain(b, answer)
			}
		})
	}
}

func drain(b *testing.B, answer *http.Response) {
	b.Helper()
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
		b.Fatal(answer.Status, err)
	}
}
