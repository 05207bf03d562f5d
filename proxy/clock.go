package proxy

import "time"

// processStart is the zero of sinceStart.
var processStart = time.Now()

// sinceStart is the time since the process began. Connections keep times in this form,
// because it fits into an atomic.Int64.
func sinceStart() time.Duration { return time.Since(processStart) }
