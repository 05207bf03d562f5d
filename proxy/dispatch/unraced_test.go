//go:build !race

package dispatch

// Raced tells whether the tests run with the race detector.
const Raced = false
