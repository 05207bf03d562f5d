//go:build race

package policy

import "time"

// longestRefusal is what a bomb may cost, ten times as much where the detector
// of races watches every access.
const longestRefusal = time.Second
