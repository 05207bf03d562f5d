package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// ResourceInfo is the state of a resource.
type ResourceInfo struct {
	Site  string
	At    Scope  // zero: the whole site; the key "other" may stand for all keys without an own resource
	Title string // of its limit

	// Meter is a meter that MeterSource.NewMeter has made; nil otherwise. It may be used until
	// the visit is over.
	Meter limit.Meter

	// State is the state of a meter that is not made yet; nil otherwise.
	State []byte

	Cooling  time.Time // end of the cooldown; zero: none
	Why      string    // reason of the cooldown or of the slow start after it
	Held     int64     // units that waiting holds need
	InFlight int64     // units that requests under way have taken
}
