//go:build !race

package proxy

// simRows is how many rows of simPairs each service has. With the race detector each takes
// ten times as long.
const simRows = 3
