//go:build !race

package policy

// raced tells whether the race detector watches.
const raced = false
