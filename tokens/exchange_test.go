package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// server answers in memory, after a while, so that fake time passes.
type server struct {
	takes   time.Duration
	asked   atomic.Int64
	handler http.HandlerFunc
	fails   error
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if s.fails != nil {
		return nil, s.fails
	}
	w := httptest.NewRecorder()
	s.handler(w, r)
	return w.Result(), nil
}

// grants answers id:secret in Basic credentials with numbered tokens.
func (s *server) grants(lifetime int) {
	s.handler = func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "id" || secret != "canary" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error": "invalid_client", "error_description": %q}`, "canary")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprint("given", s.asked.Load()), "token_type": "bearer", "expires_in": lifetime})
	}
}

func (s *server) pool(t *testing.T, secrets ...string) *Pool {
	t.Helper()
	p, err := New(start, policy.Pool{Name: "p", Put: bearer(), OAuth2: exchanging}, loaded(secrets...), s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var exchanging = policy.OAuth2{TokenURL: "https://api.test/token", Scopes: []string{"read", "write"}}

func TestAPairIsExchangedOnceAndRenewedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Second}
		s.grants(3600)
		p := s.pool(t, "a=id:canary")
		defer p.Close()
		set := p.Set()
		a := set.Tokens()[0]
		got := make(chan string)
		for range 50 {
			go func() {
				secret, err := set.Credential(t.Context(), a)
				if err != nil {
					t.Error(err)
				}
				got <- secret.Reveal()
			}()
		}
		for range 50 {
			if item := <-got; item != "given1" {
				t.Fatal(item)
			}
		}
		expect := func(want string, asked int64, wait time.Duration) {
			t.Helper()
			began := time.Now()
			secret, err := set.Credential(t.Context(), a)
			if err != nil || secret.Reveal() != want || time.Since(began) != wait {
				t.Fatal(secret.Reveal(), err, time.Since(began))
			}
			synctest.Wait()
			if s.asked.Load() != asked {
				t.Fatal(s.asked.Load())
			}
		}
		expect("given1", 1, 0)
		time.Sleep(54 * time.Minute)
		expect("given1", 1, 0)
		time.Sleep(2 * time.Minute)
		expect("given1", 2, 0) // the next one is on its way, and nobody waits for it
		time.Sleep(2 * time.Second)
		expect("given2", 2, 0)
		time.Sleep(2 * time.Hour)
		expect("given3", 3, time.Second)

		s.takes = 20 * time.Second // the server is slow when the next is due
		time.Sleep(58 * time.Minute)
		expect("given3", 4, 0)
		time.Sleep(19 * time.Second)
		expect("given3", 4, 0)
		time.Sleep(2 * time.Second)
		expect("given4", 4, 0)
	})
}

func TestAnExchangeOutlivesWhoAskedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: 10 * time.Second}
		s.grants(3600)
		p := s.pool(t, "a=id:canary")
		defer p.Close()
		set := p.Set()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := set.Credential(ctx, set.Tokens()[0]); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Fatal(err)
		}
		if _, err := set.Credential(ctx, set.Tokens()[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		secret, err := set.Credential(t.Context(), set.Tokens()[0])
		if err != nil || secret.Reveal() != "given1" || s.asked.Load() != 1 {
			t.Fatal(secret.Reveal(), err)
		}
	})
}

func TestAClosedPoolExchangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Hour}
		p := s.pool(t, "a=id:canary", "b=id2:canary")
		set := p.Set()
		failed := make(chan error)
		go func() {
			_, err := set.Credential(t.Context(), set.Tokens()[0])
			failed <- err
		}()
		synctest.Wait()
		p.Close()
		if err := <-failed; err == nil {
			t.Fatal("it was cut off")
		}
		var exchangeError *ExchangeError
		if _, err := set.Credential(t.Context(), set.Tokens()[1]); !errors.As(err, &exchangeError) || s.asked.Load() != 1 {
			t.Fatal(err)
		}
	})
}

func TestAFailedExchangeIsTriedAgainEverMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }}
		p := s.pool(t, "a=id:canary")
		defer p.Close()
		set := p.Set()
		for i, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
			for range 3 {
				_, err := set.Credential(t.Context(), set.Tokens()[0])
				var exchangeError *ExchangeError
				if !errors.As(err, &exchangeError) || exchangeError.Rejected || !exchangeError.RetryAt.Equal(time.Now().Add(wait*time.Second)) {
					t.Fatalf("%d: %+v", i, exchangeError)
				}
			}
			if s.asked.Load() != int64(i+1) {
				t.Fatal(s.asked.Load())
			}
			time.Sleep(wait * time.Second)
		}
		s.handler = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, err := set.Credential(t.Context(), set.Tokens()[0])
		var exchangeError *ExchangeError
		if !errors.As(err, &exchangeError) || !exchangeError.RetryAt.Equal(time.Now().Add(90*time.Second)) {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		s.grants(10)
		if secret, err := set.Credential(t.Context(), set.Tokens()[0]); err != nil || secret.Empty() {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second) // it still is good, and due
		s.handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		for range 3 {
			if secret, err := set.Credential(t.Context(), set.Tokens()[0]); err != nil || secret.Empty() {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if _, err := set.Credential(t.Context(), set.Tokens()[0]); !errors.As(err, &exchangeError) || exchangeError.Status != http.StatusBadGateway {
			t.Fatal(err)
		}
	})
}

func TestACredentialThatTheSiteRefusesIsRenewedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.grants(0) // for ever
		p := s.pool(t, "a=id:canary")
		defer p.Close()
		set := p.Set()
		a := set.Tokens()[0]
		first, err := set.Credential(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if set.Renew(time.Now(), a, first) {
			t.Fatal("it is new: the pair is to blame")
		}
		time.Sleep(1000 * time.Hour)
		for range 3 { // three requests had it
			if !set.Renew(time.Now(), a, first) {
				t.Fatal("it is old")
			}
		}
		second, err := set.Credential(t.Context(), a)
		if err != nil || second.Reveal() != "given2" || !set.Renew(time.Now(), a, first) || s.asked.Load() != 2 {
			t.Fatal(err, second.Reveal())
		}
		if _, err := p.Reload(time.Now(), policy.Pool{Put: bearer(), OAuth2: exchanging}, loaded("b=id:canary")); err != nil {
			t.Fatal(err)
		}
		if kept, _ := p.Set().Credential(t.Context(), p.Find("b")); kept != second {
			t.Fatal("a reload exchanged it again")
		}
		if _, err := p.Reload(time.Now(), policy.Pool{Put: bearer()}, loaded("b=id:canary")); err != nil {
			t.Fatal(err)
		}
		if plain, _ := p.Set().Credential(t.Context(), p.Find("b")); plain.Reveal() != "id:canary" || p.Set().Renew(time.Now(), p.Find("b"), plain) {
			t.Fatal("nothing is exchanged any more")
		}
	})
}

// Whatever a server answers, nothing of it and nothing of the pair is told.
func TestWhyAnExchangeFailsHasNoSecrets(t *testing.T) {
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "https://evil.test/canary")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, one := range map[string]struct {
		handler  http.HandlerFunc
		fails    error
		want     string
		rejected bool
		asked    int64
	}{
		"echo":       {handler: answer(500, "text/html", "canary"), want: "500 Internal Server Error", asked: 1},
		"client":     {handler: answer(400, "application/json", `{"error":"invalid_client","error_description":"canary"}`), want: "400 Bad Request invalid_client", rejected: true, asked: 2},
		"own code":   {handler: answer(400, "application/json", `{"error":"canary"}`), want: "400 Bad Request", asked: 2},
		"401":        {handler: answer(401, "text/plain", "error=canary"), want: "401 Unauthorized", rejected: true, asked: 2},
		"redirect":   {handler: answer(307, "text/html", "canary"), want: "307 Temporary Redirect", asked: 1},
		"not JSON":   {handler: answer(200, "application/json", "canary"), want: "the answer has no token", asked: 1},
		"no token":   {handler: answer(200, "application/json", `{"canary":1}`), want: "the answer has no token", asked: 1},
		"line break": {handler: answer(200, "application/json", `{"access_token":"canary\r\nX: y"}`), want: "the answer has no token", asked: 1},
		"200 error":  {handler: answer(200, "application/json", `{"error":"access_denied","error_uri":"canary"}`), want: "200 OK access_denied", rejected: true, asked: 1},
		"transport":  {fails: errors.New("malformed status line canary"), want: "no connection", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{handler: one.handler, fails: one.fails}
				p := s.pool(t, "alice=id:canary")
				defer p.Close()
				_, err := p.Set().Credential(t.Context(), p.Find("alice"))
				var exchangeError *ExchangeError
				if !errors.As(err, &exchangeError) || exchangeError.Error() != "exchanging the credentials of alice at api.test: "+one.want || exchangeError.Rejected != one.rejected || s.asked.Load() != one.asked {
					t.Fatalf("%v, %d", err, s.asked.Load())
				}
				if text := fmt.Sprintf("%v %+v %#v", err, *exchangeError, *exchangeError); strings.Contains(text, "canary") {
					t.Fatal(text)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Hour}
		p := s.pool(t, "alice=id:canary")
		defer p.Close()
		_, err := p.Set().Credential(t.Context(), p.Find("alice"))
		var exchangeError *ExchangeError
		if !errors.As(err, &exchangeError) || !exchangeError.TimedOut || exchangeError.Error() != "exchanging the credentials of alice at api.test: no answer within 30s" {
			t.Fatal(err)
		}
	})
}

// Some servers want the pair in the form. Which way is right is found out once.
func TestAPairIsSentTheWayThatAServerUnderstands(t *testing.T) {
	var basic, form atomic.Int64
	real := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, _, ok := r.BasicAuth(); ok {
			basic.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		form.Add(1)
		if r.FormValue("client_id") != "id" || r.FormValue("client_secret") != "ca:nary+" || r.FormValue("scope") != "read write" || r.FormValue("grant_type") != "client_credentials" {
			t.Error(r.Form)
		}
		_, _ = io.WriteString(w, `{"access_token": "given", "expires_in": "1"}`)
	}))
	defer real.Close()
	p, err := New(start, policy.Pool{Put: bearer(), OAuth2: policy.OAuth2{TokenURL: real.URL, Scopes: exchanging.Scopes}}, loaded("a=id:ca:nary+"), http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	set := p.Set()
	for range 2 {
		secret, err := set.Credential(t.Context(), set.Tokens()[0])
		if err != nil || secret.Reveal() != "given" {
			t.Fatal(err)
		}
		set.Renew(time.Now().Add(time.Hour), set.Tokens()[0], secret)
	}
	if basic.Load() != 1 || form.Load() != 2 {
		t.Fatal(basic.Load(), form.Load())
	}
}
