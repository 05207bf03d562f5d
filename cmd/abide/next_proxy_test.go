//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestAWrongPasswordOfTheNextProxyIsTriedOnce: proxies of companies lock an account after some
// wrong passwords.
func TestAWrongPasswordOfTheNextProxyIsTriedOnce(t *testing.T) {
	var wrong, right atomic.Int32
	hop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic YWxpY2U6cmlnaHQtaHVzaA==" { // alice:right-hush
			wrong.Add(1)
			w.Header().Set("Proxy-Authenticate", "Basic")
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		right.Add(1)
		io.WriteString(w, "from the next proxy")
	}))
	defer hop.Close()
	for name, scheme := range map[string]string{"plain": "http://api.test/", "tunnelled": "https://api.test/"} {
		t.Run(name, func(t *testing.T) {
			wrong.Store(0)
			right.Store(0)
			dir := t.TempDir()
			config := func(password string) {
				write(t, filepath.Join(dir, "abide.yaml"), "data: none\nretry: {base: 1ms, max: 2ms}\negress: {proxy: 'http://alice:"+password+"@"+hop.Listener.Addr().String()+"'}\n")
			}
			config("wrong-hush")
			d := serveIn(t, dir, nil)
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					answer, err := d.client(nil).Get(scheme)
					if err != nil {
						if !strings.Contains(err.Error(), "Bad Gateway") { // of the CONNECT
							t.Error(err)
						}
						return
					}
					defer answer.Body.Close()
					body, _ := io.ReadAll(answer.Body)
					if answer.StatusCode != 502 || !strings.Contains(string(body), "does not accept abide's user and password") || !strings.Contains(string(body), "retry_at") {
						t.Errorf("%d %s", answer.StatusCode, body)
					}
				})
			}
			all.Wait()
			if n := wrong.Load(); n != 1 {
				t.Errorf("the wrong password was sent %d times", n)
			}
			_, status := d.ask("/api/v1/status")
			if !strings.Contains(status, `"name":"next proxy","ok":true,"degraded":true,"detail":"the next proxy does not accept abide's user and password (407): nothing is sent through it, until`) {
				t.Errorf("the status: %s", status)
			}
			d.log.await(t, `the next proxy does not accept abide's user and password \(407\): nothing is sent through it, until`)
			if log := d.log.String(); strings.Count(log, "(407)") != 1 || strings.Contains(log+status, "hush") {
				t.Errorf("the log: %s", log)
			}
			if name == "plain" {
				config("right-hush")
				d.log.forget()
				d.signal(syscall.SIGHUP)
				d.log.await(t, `reloaded`)
				if code, body := d.get(scheme); code != 200 || wrong.Load() != 1 || right.Load() != 1 {
					t.Errorf("with the right password: %d %s, %d wrong and %d right ones", code, body, wrong.Load(), right.Load())
				}
			}
		})
	}
}
