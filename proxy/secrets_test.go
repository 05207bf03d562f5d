package proxy

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWrongSecretsOfClientsAreSlowedDown checks that a client with wrong secrets waits
// for each response, and a client with a right secret does not.
func TestWrongSecretsOfClientsAreSlowedDown(t *testing.T) {
	const yaml = "access: {clients: [{name: news, secret: hunter2hunter2}]}\ndefaults: {limits: [], learn: false}\n"
	bubble(t, echoing, yaml, func(w *bubbleProxy) {
		ask := func(credentials string) (status int, took time.Duration) {
			began := time.Now()
			request, err := http.NewRequest("GET", "http://site.test/", nil)
			must(t, err)
			if credentials != "" {
				request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(credentials)))
			}
			answer, err := w.client().Do(request)
			must(t, err)
			answer.Body.Close()
			return answer.StatusCode, time.Since(began)
		}
		var guessing sync.WaitGroup
		var mu sync.Mutex
		soon, late := 0, 0
		for range 60 {
			guessing.Go(func() {
				status, took := ask("news:guess-one-two")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case status != 407 || took > 11*time.Second:
					t.Errorf("%d after %v", status, took)
				case took < time.Second:
					soon++
				default:
					late++
				}
			})
		}
		synctest.Wait()
		for range 20 {
			if status, took := ask("news:hunter2hunter2"); status != 200 || took > time.Second {
				t.Errorf("with the right secret: %d after %v", status, took)
			}
			if status, took := ask(""); status != 407 || took > time.Second {
				t.Errorf("without any: %d after %v", status, took)
			}
		}
		guessing.Wait()
		if soon != 10 || late != 50 {
			t.Errorf("%d answers at once, %d later", soon, late)
		}
		elapse(2 * time.Minute)
		if text := w.log.String(); strings.Count(text, "is not one of access.clients") != 2 || strings.Contains(text, "guess") {
			t.Errorf("the log:\n%s", text)
		}
	})
}
