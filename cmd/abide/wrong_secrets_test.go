//go:build unix

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TestGuessersAreSlowedDownAndLockNobodyOut: the proxy and the admin listener of the
// same abide, with a right and wrong secrets from one address.
func TestGuessersAreSlowedDownAndLockNobodyOut(t *testing.T) {
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	dir := t.TempDir()
	write(t, dir+"/abide.yaml", `
data: none
admin: {token: right-token-0123}
access: {clients: [{name: news, secret: right-secret-0123}]}
egress: {resolve: {"api.test:80": "`+site.Listener.Addr().String()+`"}}
`)
	d := serveIn(t, dir, nil)
	through := func(password string) *http.Client { return d.client(url.UserPassword("news", password)) }
	admin := func(token string) *http.Request {
		r, err := http.NewRequest("GET", "http://"+d.admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return r
	}
	guessing, stop := context.WithCancel(t.Context())
	var guessers sync.WaitGroup
	guess := func(client *http.Client, r *http.Request, status int) {
		guessers.Go(func() {
			answer, err := client.Do(r.WithContext(guessing))
			if err == nil {
				answer.Body.Close()
				if answer.StatusCode != status {
					t.Errorf("a guess: %d", answer.StatusCode)
				}
			}
		})
	}
	target, err := http.NewRequest("GET", "http://api.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		guess(through("wrong-secret"), target, 407)
		guess(d.client(nil), target, 407) // it says nothing, which is no guess
		guess(http.DefaultClient, admin("wrong-token"), 401)
		if n == 9 {
			guessers.Wait() // the first are answered at once
		}
	}
	for range 5 {
		if status, _ := fetch(t, through("right-secret-0123"), "http://api.test/"); status != 404 {
			t.Errorf("with the right secret: %d", status)
		}
		answer, err := http.DefaultClient.Do(admin("right-token-0123"))
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(err, answer)
		}
		answer.Body.Close()
	}
	stop()
	guessers.Wait()
	d.log.await(t, `the proxy refused a name or secret from 127\.0\.0\.1 .*: 1 since the last such line`)
	d.log.await(t, `the admin listener refused a wrong token from 127\.0\.0\.1: 1 since the last such line`)
	if text := d.log.String(); strings.Count(text, "refused a") != 2 || strings.Contains(text, "wrong-") {
		t.Errorf("the log:\n%s", text)
	}
}
