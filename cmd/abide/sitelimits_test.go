package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
)

func TestErrorsOfLimitsSayWhoseFaultTheyAre(t *testing.T) {
	_, faults := policy.ParseLimits([]byte("{}"))
	full := errors.New("disk full")
	for _, one := range []struct {
		limits []policy.Limit
		err    error
		want   string
	}{
		{[]policy.Limit{}, nil, "<nil>"},
		{nil, fmt.Errorf("no: %w", proxy.ErrNoSuchSite), "admin.Missing"},
		{nil, faults, "policy.Faults"},
		{nil, full, "*errors.errorString"},
		{[]policy.Limit{}, full, "admin.NotKept"},
	} {
		if got := fmt.Sprintf("%T", limitsError(one.limits, one.err)); got != one.want {
			t.Errorf("%v is %s, not %s", one.err, got, one.want)
		}
	}
}

func TestErrorsOfPermitsAreTheListenersOwn(t *testing.T) {
	err := permitError(&proxy.Denied{Reason: "wait", Title: "a", Detail: "b", Limit: "c", Status: 429})
	var denied *admin.Denied
	if !errors.As(err, &denied) || *denied != (admin.Denied{Reason: "wait", Title: "a", Detail: "b", Limit: "c", Status: 429}) {
		t.Errorf("%#v", err)
	}
	var missing admin.Missing
	if err := permitError(proxy.ErrNoPermit); !errors.As(err, &missing) {
		t.Errorf("%#v", err)
	}
	if err := permitError(proxy.ErrPermitAsk); !errors.Is(err, proxy.ErrPermitAsk) || permitError(nil) != nil {
		t.Errorf("%#v", err)
	}
}

func TestWrittenLimitsAndForecastsAreToldAsTheyAre(t *testing.T) {
	written := []proxy.WrittenLimit{{Site: "s", Limit: "l", Whose: "w", Amount: 5, Left: 3, Most: 5, Unit: "bytes", Per: "1m", Shared: true, Kept: true}}
	if got, want := siteLimitsOf(written)[0], (admin.SiteLimit{Site: "s", Limit: "l", Of: "w", Amount: 5, Left: 3, Most: 5, Unit: "bytes", Per: "1m", Shared: true, Kept: true}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := writtenOf(written)[0], (metrics.Written{Site: "s", Name: "l", Whose: "w", Amount: 5, Left: 3}); got != want {
		t.Errorf("%+v", got)
	}
	got := forecastsOf([]proxy.Forecast{{Site: "s", Limit: "l", Whose: "w", Amount: 5, Used: 2, Left: 3, Unit: "requests", Rate: 0.5}})[0]
	if want := (admin.Forecast{Site: "s", Limit: "l", Of: "w", Amount: 5, Used: 2, Left: 3, Unit: "requests", Rate: 0.5}); got != want {
		t.Errorf("%+v", got)
	}
}
