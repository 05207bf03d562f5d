//go:build !race

package store

// Raced tells whether the race detector watches.
const Raced = false
