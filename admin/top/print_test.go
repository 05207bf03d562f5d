package top

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/abide-proxy/abide/status"
)

func TestAPrintedTableHasAllColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := "a.long.name.of.a.site.that.no.terminal.has.room.for.example.com"
		from := newCanned(site("b.test"), site(long), site("\x1b[1mc"))
		from.rates["b.test"] = 3
		from.sites[0].Paused = &status.Pause{}
		var text bytes.Buffer
		if err := Print(t.Context(), &text, from, "127.0.0.1:9128"); err != nil {
			t.Fatal(err)
		}
		want := `abide 1.2.3 at 127.0.0.1:9128  up 0s  3 sites
3.0 requests/s  3.0 kB/s received  300 B/s sent  0 requests wait  4 connections, 1 tunnel

SITE                                                             REQ/S  RECV/S  SENT/S  WAIT  LONGEST  LIMITED BY  REFUSED  STATE
b.test                                                             3.0  3.0 kB   300 B     0        -  -                 0  paused
 [1mc                                                                0     0 B     0 B     0        -  -                 0  ok
` + long + `      0     0 B     0 B     0        -  -                 0  ok
`
		if text.String() != want {
			t.Errorf("%s\nwant\n%s", text.String(), want)
		}
	})
}

func TestAnAbideThatDoesNotAnswerIsNotPrinted(t *testing.T) {
	from := newCanned(site("api.test"))
	from.failed = errors.New("gone")
	var text bytes.Buffer
	if err := Print(t.Context(), &text, from, "x"); !errors.Is(err, from.failed) || text.Len() > 0 {
		t.Errorf("%v, %q", err, text.String())
	}
}
