package dispatch_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAPauseSaysWhatTheSiteSaid: the status and the first words of the refusal, without credentials.
func TestAPauseSaysWhatTheSiteSaid(t *testing.T) {
	for body, want := range map[string]string{
		`{"error": {"code": "quota", "help": "https://site.test/docs/a-long-address", "message": "Daily quota exceeded.\nIt resets at midnight."}}`: `: 429, "Daily quota exceeded. It resets at midnight."`,
		"Slow down,   please\x1b[31m":                                 `: 429, "Slow down, please [31m"`,
		`{"message":"The key sesame-canary-1 has no calls left","cut`: `: 429, "The key {token} has no calls left"`,
		"see https://site.test/?api_key=another-canary":               `: 429, "see https://site.test/?api_key={token}"`,
		"<!DOCTYPE html><html><body>Too many requests</body></html>":  "",
		"": "",
		`{"a": "` + strings.Repeat("much text ", 100) + `"}`:                `: 429, "` + strings.Repeat("much text ", 7) + `much text…"`,
		"<error><message>Over the limit of 5 calls a day</message></error>": "",
	} {
		for _, named := range []string{"", "900"} {
			site := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					return
				}
				w.Header().Set("Content-Type", "text/plain")
				if named != "" {
					w.Header().Set("Retry-After", named)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				io.WriteString(w, body)
			}
			run(t, site, "queue: {wait: 1h}\n", func(w rig) {
				go w.Get("http://site.test/a?key=another-canary", "Authorization", "Bearer sesame-canary-1", "Abide-Max-Wait", "5m")
				time.Sleep(time.Second / 2)
				synctest.Wait()
				why := map[string]string{"": "refused without a time", "900": "Retry-After"}[named] + want
				if !strings.Contains(w.lines(), "("+strings.ReplaceAll(why, `"`, `\"`)+")") {
					t.Errorf("%.60q:\n%s", body, w.lines())
				}
				if long := w.Cooldowns(10 * time.Minute); named != "" && (len(long) != 1 || long[0].Site != "site.test" || long[0].Until.Before(time.Now()) || long[0].Why != why) || named == "" && len(long) > 0 {
					t.Errorf("%.60q: %+v", body, long)
				}
				if said := fmt.Sprint(w.lines(), w.Holds("", 9)); strings.Contains(said, "canary") {
					t.Error(said)
				}
				time.Sleep(10 * time.Minute)
			})
		}
	}
}
