//go:build race

package proxy

// simRows is how many rows of simPairs each service has: the race detector makes
// each take ten times as long.
const simRows = 1
