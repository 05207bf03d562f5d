package plans

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
)

// NoTokenTitle is the title of the limit of a pool whose tokens are all disabled.
const NoTokenTitle = "no token is enabled"

// nothing is a meter that lets nothing go.
type nothing struct{ limit.Meter }

// noToken provides the meter of a pool without a token.
type noToken struct{}

func (noToken) NewMeter() limit.Meter {
	m, err := limit.New(limit.Spec{As: limit.Concurrency, Amount: 1})
	if err != nil {
		panic(err) // one is an amount
	}
	return nothing{m}
}

// External leaves the meter.
func (noToken) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// When is not known: when there is a token, the needs are others.
func (nothing) When(time.Time, int64) (time.Time, bool) { return limit.Unknown, true }

// Left is nothing.
func (nothing) Left(time.Time) int64 { return 0 }
