package storehealth

import (
	"errors"
	"io"
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
	var is status.Store
	if h.Fill(&is); is.Mean != 0 || is.Loss != nil || is.Clock != nil || is.Fails() {
		t.Errorf("%+v", is)
	}
	for range 3 {
		h.Operation("exchange", nil, time.Second)
	}
	before := time.Now()
	h.Operation("exchange", errors.New("away"), 5*time.Second)
	if h.Fill(&is); is.Since.Before(before) || is.Err != "away" || is.Operations != 3 || is.Failures != 1 || is.Mean != 2 || is.Outages != 1 {
		t.Errorf("%+v", is)
	}
}
