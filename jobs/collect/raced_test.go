//go:build race

package collect

import "time"

// hour is a shorter hour, because the race detector is slow.
const hour = 20 * time.Minute
