//go:build !race

package collect

import "time"

const hour = time.Hour
