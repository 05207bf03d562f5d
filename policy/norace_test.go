//go:build !race

package policy

import "time"

// longestRefusal is what a bomb may cost.
const longestRefusal = 100 * time.Millisecond
