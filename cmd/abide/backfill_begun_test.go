//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// A place in the pages of a unit is one for the pagination and the request that it was saved with. With others the unit begins
// again, so that no record is passed over, and none is there twice.
func TestAUnitThatWasBegunBeginsAgainWithOtherPages(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		number := func(name string) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
		size := number("n")
		from := (number("page") - 1) * size
		if from < 0 {
			from = number("skip")
		}
		if refuses.Load() && from >= 60 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var list []string
		for i := from; i < min(from+size, 107); i++ {
			list = append(list, fmt.Sprintf(`{"n": %d}`, i))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
	}))
	defer server.Close()
	for name, one := range map[string]struct {
		after string
		asks  int64 // the second run
		older bool  // an older release has begun it
	}{
		"the same":                         {"paginate: {style: page, first: 1, size: 20, size_param: n, max_pages: 50, check: off}", 3, false},
		"another size":                     {"paginate: {style: page, first: 1, size: 50, size_param: n}", 3, false},
		"another style":                    {"paginate: {style: offset, param: skip, size: 20, size_param: n}", 6, false},
		"by an older release":              {"paginate: {style: page, first: 1, size: 20, size_param: n}", 6, true},
		"another size than older releases": {"paginate: {style: page, first: 1, size: 50, size_param: n}", 3, true},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "orders.yaml")
		run := func(paginate string, status int) string {
			t.Helper()
			asked.Store(0)
			write(t, file, "name: orders\nrequest: http://api.test/orders\n"+paginate+"\n")
			d := launch(t, dir, nil, "backfill", "--quiet", "orders.yaml")
			if d.status() != status {
				t.Errorf("%s: it ended with %d: %s", name, d.status(), d.log)
			}
			return d.log.String()
		}
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		refuses.Store(true)
		run("paginate: {style: page, first: 1, size: 20, size_param: n}", 1)
		refuses.Store(false)
		if one.older {
			change(t, filepath.Join(dir, "orders.db"), "UPDATE orders_units SET checkpoint = CAST(json_remove(CAST(checkpoint AS TEXT), '$.of') AS BLOB)")
		}
		log := run(one.after, 0)
		if asked.Load() != one.asks || strings.Contains(log, "paginate") != (name != "the same") {
			t.Errorf("%s: it asked %d times: %s", name, asked.Load(), log)
		}
		if n := count(t, filepath.Join(dir, "orders.db"), "SELECT count(*) FROM orders"); n != 107 {
			t.Errorf("%s: %d rows", name, n)
		}
		if n := count(t, filepath.Join(dir, "orders.db"), "SELECT records FROM orders_units"); n != 107 {
			t.Errorf("%s: it counts %d records", name, n)
		}
	}
}
