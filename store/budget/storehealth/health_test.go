package storehealth

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/status"
)

// uncounted is metrics that nothing reads.
type uncounted struct{}

func (uncounted) StoreOperation(string, bool, time.Duration) {}
func (uncounted) StoreLent(string, int64)                    {}
func (uncounted) StoreLost(string)                           {}
func (uncounted) StoreAway()                                 {}

func TestTheStoreIsToldAsItIs(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h := New(true, uncounted{}, log)
	var store status.Store
	if h.Fill(&store); store.Mean != 0 || store.Loss != nil || store.Clock != nil || store.Fails() {
		t.Errorf("%+v", store)
	}
	for range 3 {
		h.Operation("exchange", nil, time.Second)
	}
	before := time.Now()
	h.Operation("exchange", errors.New("away"), 5*time.Second)
	if h.Fill(&store); store.Since.Before(before) || store.Err != "away" || store.Operations != 4 || store.Failures != 1 || store.Mean != 2 || store.Outages != 1 {
		t.Errorf("%+v", store)
	}
}

func TestALossOfAllIsSaidOnce(t *testing.T) {
	var said strings.Builder
	log := logrus.New()
	log.SetOutput(&said)
	h, now := New(true, uncounted{}, log), time.Now()
	h.LostSite(now, "api.test")
	h.LostAll(now)
	h.LostAll(now.Add(time.Millisecond))
	if n := strings.Count(said.String(), "the store has lost what was written down"); n != 1 {
		t.Errorf("%d times: %s", n, said.String())
	}
	h.LostAll(now.Add(time.Hour))
	if n := strings.Count(said.String(), "the store has lost what was written down"); n != 2 {
		t.Errorf("an hour later: %d times", n)
	}
}
