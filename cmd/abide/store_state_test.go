package main

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestWhatCannotBeKeptIsDegradedAndServesOn(t *testing.T) {
	since := time.Date(2026, time.March, 1, 13, 0, 0, 0, time.FixedZone("", 3600))
	for _, one := range []struct{ got, want status.Check }{
		{checkOf("state", "/data/abide.db", time.Time{}, ""), status.Check{Name: "state", OK: true, Detail: "/data/abide.db"}},
		{checkOf("state", "/data/abide.db", since, "disk full"), status.Check{Name: "state", OK: true, Degraded: true, Detail: "since 1 March 2026, 12:00 UTC: disk full"}},
	} {
		if one.got != one.want {
			t.Errorf("%+v, want %+v", one.got, one.want)
		}
	}
	var none storage
	if ill := none.health(); ill.Err != nil {
		t.Errorf("%+v", ill)
	}
}
