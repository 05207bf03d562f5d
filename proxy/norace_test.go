//go:build !race

package proxy

// raced tells that the race detector runs, with which everything takes ten times as long.
const raced = false
