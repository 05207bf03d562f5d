//go:build race

package dispatch

// raced tells whether the tests run with the race detector.
const raced = true
