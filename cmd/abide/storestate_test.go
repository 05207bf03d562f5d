package main

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/proxy"
)

func TestTheStoreIsToldAsItIs(t *testing.T) {
	since := time.Unix(1_800_000_000, 0)
	is := storeOf(proxy.StoreStatus{
		Kind: "shared", Instance: "1", Since: since, Err: "away", Operations: 3, Failures: 1, Took: 8 * time.Second,
		Members: 2,
	})
	if is.Kind != "shared" || is.Instance != "1" || !is.Since.Equal(since) || is.Err != "away" || is.Operations != 3 || is.Failures != 1 || is.Mean != 2 {
		t.Errorf("%+v", is)
	}
	if is.Count != 2 {
		t.Errorf("%+v", is)
	}
	if is := storeOf(proxy.StoreStatus{Kind: "none"}); is.Mean != 0 || is.Members != nil {
		t.Errorf("%+v", is)
	}
}

func TestWhatCannotBeKeptIsDegradedAndServesOn(t *testing.T) {
	since := time.Date(2026, time.March, 1, 13, 0, 0, 0, time.FixedZone("", 3600))
	for _, one := range []struct{ got, want admin.Check }{
		{checkOf("state", "/data/abide.db", time.Time{}, ""), admin.Check{Name: "state", OK: true, Detail: "/data/abide.db"}},
		{checkOf("state", "/data/abide.db", since, "disk full"), admin.Check{Name: "state", OK: true, Degraded: true, Detail: "since 2026-03-01T12:00:00Z: disk full"}},
	} {
		if one.got != one.want {
			t.Errorf("%+v, want %+v", one.got, one.want)
		}
	}
	var none *keeping
	if ill := none.health(); ill.Err != nil || none.bandwidth() != nil {
		t.Errorf("%+v", ill)
	}
}
