//go:build unix

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Ten of ten are used, and the limit is changed: by PUT, by a reload, and in the file while
// abide is down. Nothing more goes at once.
func TestALimitThatIsChangedStaysUsed(t *testing.T) {
	const ten = "requests: 10, per: 1h"
	for name, one := range map[string]struct{ from, to string }{
		"per":              {ten, "requests: 10, per: 2h"},
		"per, longer":      {"requests: 10, per: 1s", "requests: 10, per: 10m"},
		"as":               {ten, "requests: 10, per: 1h, as: fixed"},
		"as, to a bucket":  {ten, "requests: 10, per: 1h, as: bucket"},
		"as, of a bucket":  {"requests: 10, per: 1h, as: bucket, burst: 10", ten},
		"per, of a bucket": {"requests: 10, per: 10h, as: bucket, burst: 10", "requests: 10, per: 20h, as: bucket, burst: 10"},
		"a quota":          {ten, "requests: 10, per: month"},
		"timezone":         {"requests: 10, per: day, timezone: Etc/GMT-1", "requests: 10, per: day, timezone: Etc/GMT-2"},
		"path":             {ten, "requests: 10, per: 1h, path: /a/*"},
		"path, wider":      {"requests: 10, per: 1h, path: /a/*", ten},
		"method":           {ten, "requests: 10, per: 1h, method: GET"},
		"by":               {"requests: 10, per: 1h, by: client", "requests: 10, per: 1h"},
	} {
		for _, way := range []string{"PUT", "reload", "restart", "PUT and back"} {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				dir, o := t.TempDir(), newOrigin(t)
				config := func(limit string) {
					write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf("data: data\negress: {resolve: {\"api.test:80\": %q}}\nsites: [{host: api.test, learn: false, limits: [{%s}]}]\n",
						strings.TrimPrefix(o.url, "http://"), limit))
				}
				config(one.from)
				d := serveIn(t, dir, nil)
				ask := func() (ok int) {
					for range 10 {
						r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/a/b", nil)
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("Abide-Max-Wait", "500ms")
						answer, err := d.client(nil).Do(r)
						if err != nil {
							t.Fatal(err)
						}
						answer.Body.Close()
						if answer.StatusCode == http.StatusOK {
							ok++
						}
					}
					return ok
				}
				went := 0
				for tries := 0; went < 10 && tries < 20; tries++ {
					went += ask()
				}
				put := func(limit string) {
					text := "{\"limits\": [{" + limit + "}]}"
					if status, said := d.send(http.MethodPut, "/api/v1/sites/api.test/limits", text); status != http.StatusOK {
						t.Fatalf("%d %s", status, said)
					}
				}
				switch way {
				case "PUT":
					put(one.to)
				case "PUT and back":
					put(one.to)
					ask()
					if status, said := d.send(http.MethodDelete, "/api/v1/sites/api.test/limits", ""); status >= 300 {
						t.Fatalf("%d %s", status, said)
					}
					if strings.Contains(one.from, "1s") {
						return // which is over
					}
				case "reload":
					config(one.to)
					d.signal(syscall.SIGHUP)
					d.log.await(t, "the configuration was reloaded")
				case "restart":
					d.signal(syscall.SIGTERM)
					d.status()
					config(one.to)
					d = serveIn(t, dir, nil)
				}
				if strings.Contains(one.from, "1s") && way == "restart" {
					return // an idle limit is not kept
				}
				if more := ask(); went != 10 || more != 0 {
					t.Errorf("%d went, and after the change %d more", went, more)
				}
			})
		}
	}
}
